import test, { type ExecutionContext } from 'ava';
import type { JobRecord } from '../../../master/jobs/job.ts';
import { JobCache } from '../../../master/jobs/job-cache.ts';
import { createMemoryStore } from '../../../store/index.ts';

const fleet = Array.from({ length: 15_000 }, (_, index) => `minion-${index}`);

function recordOf(number: number, minions: readonly string[] = fleet): JobRecord {
  return {
    jid: `2026112100000000${String(number).padStart(4, '0')}`,
    fun: 'test.ping',
    arg: [],
    tgt: '*',
    tgtType: 'glob',
    user: 'root',
    minions,
    missing: [],
    publishedAt: 0,
    selfMade: false,
  };
}

function openCache(t: ExecutionContext): JobCache {
  const store = createMemoryStore();
  t.teardown(() => store.close());
  return new JobCache({ store, isOn: true, keepMs: 60_000, keepMarksMs: 1, now: Date.now });
}

test('jobs for a whole fleet are not all known by heart, and each is found all the same', async (t) => {
  const cache = openCache(t);
  const records = Array.from({ length: 40 }, (_, number) => recordOf(number));
  for (const record of records) await cache.add(record);
  const known = records.filter(({ jid }) => cache.remembered(jid) !== undefined);
  t.true(known.length * fleet.length <= 250_000);
  t.is(known.at(-1), records.at(-1));
  const [first] = records;
  t.is((await cache.find(first?.jid ?? ''))?.minions.size, fleet.length);
});

test('a job that somebody listens to is known by heart until nobody does', async (t) => {
  const cache = openCache(t);
  const { job, stopListening } = await cache.add(recordOf(0), () => {});
  for (let number = 1; number < 40; number += 1) await cache.add(recordOf(number));
  t.is(cache.remembered(job.jid), job);
  stopListening();
  await cache.add(recordOf(40));
  t.is(cache.remembered(job.jid), undefined);
});

test('the latest job is known by heart, however many minions it is for', async (t) => {
  const cache = openCache(t);
  const crowd = Array.from({ length: 260_000 }, (_, index) => `minion-${index}`);
  const { job } = await cache.add(recordOf(0, crowd));
  t.is(cache.remembered(job.jid), job);
});
