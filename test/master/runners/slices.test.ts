/** Runners that read many entries of the store let other work run after each slice. */

import test from 'ava';
import { JobCache } from '#master/jobs/job-cache.ts';
import { returnRow } from '#master/jobs/job-return.ts';
import { type JobRecord, jobRow } from '#master/jobs/job-row.ts';
import type { WireMap, WireValue } from '#minion-protocol';
import { maxSliceSteps } from '#runtime';
import { jobsRunner } from '#salt/runners/jobs-runner.ts';
import { Queues } from '#salt/runners/queues.ts';
import { createMemoryStore, type Operation } from '#store';
import { slicesOf } from '../../helpers/slices.ts';

const firstJid = '0'.repeat(20);
const returned = { retcode: 0, success: true, receivedAt: 0 } as const;

interface Stored {
  readonly jobs: number;
  readonly returns?: number;
  readonly metadata?: WireMap;
  /** Functions and targets of each job. */
  readonly names?: readonly string[];
  /** Result of `saltutil.running` of the only minion. */
  readonly running?: WireValue;
}

/** Calls a function of the `jobs` runner. The lists of the memory store take only one turn. */
async function call(stored: Stored, fun: string, kwarg: WireMap = {}): Promise<unknown> {
  const record = (jid: string): JobRecord => ({
    ...{ jid, fun: 'test.ping', arg: [], tgt: 'web1', tgtType: 'glob', user: 'root' },
    ...{ minions: ['web1'], missing: [], publishedAt: 0, selfMade: false },
    ...(stored.names === undefined ? {} : { fun: stored.names, tgt: stored.names }),
    ...(stored.metadata === undefined ? {} : { metadata: stored.metadata }),
  });
  const store = createMemoryStore();
  const options = { store, isOn: true, keepMs: 86_400_000, keepMarksMs: 1, now: Date.now };
  const operations: Operation[] = [];
  for (let number = 0; number < stored.jobs; number += 1) {
    const jid = `${number}`.padStart(20, '0');
    operations.push({ op: 'put', key: ['jobs', jid], value: jobRow.encode(record(jid)) });
  }
  for (let number = 0; number < (stored.returns ?? 0); number += 1) {
    const result = { minion: `web${number}`, fun: 'test.ping', return: true, ...returned };
    const key = ['returns', firstJid, result.minion];
    operations.push({ op: 'put', key, value: returnRow.encode(result) });
  }
  await store.write(operations);
  const runners = jobsRunner({
    running: () => [],
    jobs: {
      run: async function* () {
        const result = { minion: 'web1', fun: 'saltutil.running', return: stored.running ?? [] };
        yield { type: 'return', jid: '1', ...result, ...returned };
      },
    },
    cache: new JobCache(options),
  });
  return await runners[fun]?.bind(
    [],
    kwarg,
  )({
    ...{ jid: '1', user: 'u', by: undefined, timeoutSeconds: undefined, emit: () => {} },
    closing: new AbortController().signal,
    asked: { fun, arg: [], kwarg },
    continueElsewhere: () => {},
    atEnd: () => {},
  });
}

/** Steps by which the last entry of a slice may exceed it. */
const maxExcess = 10_000;

function areShort(slices: readonly number[]): boolean {
  return slices.every((steps) => steps <= maxSliceSteps + maxExcess);
}

test.serial('a scan of the stored jobs pauses often, with and without a filter', async (t) => {
  for (const [fun, kwarg] of [
    ['jobs.list_jobs', {}],
    ['jobs.list_jobs', { search_function: 'cmd.*' }],
    ['jobs.list_jobs_filter', { count: 2000 }],
    ['jobs.last_run', { function: 'cmd.*' }],
  ] as const) {
    const slices = await slicesOf(() => call({ jobs: 2000 }, fun, kwarg));
    t.true(slices.length >= 40 && areShort(slices), `${fun}: ${slices}`);
  }
});

test.serial('the jobs that a scan found are described with pauses', async (t) => {
  const listed = await slicesOf(() => call({ jobs: 2000 }, 'jobs.list_jobs'));
  const found = await slicesOf(() =>
    call({ jobs: 2000 }, 'jobs.list_jobs', { search_function: 'cmd.*' }),
  );
  t.true(listed.length >= found.length + 3, `${listed.length}, ${found.length}`);
});

test.serial('many globs are compiled and compared with one job in several slices', async (t) => {
  const globs = Array.from({ length: 10_000 }, (_, number) => `*x${number}`.padEnd(40, '*y'));
  const literals = globs.map((glob) => glob.replaceAll('*', '-'));
  const names = Array.from({ length: 40 }, (_, number) => `cmd.run${number}`);
  for (const name of ['search_function', 'search_target']) {
    const none = await slicesOf(() => call({ jobs: 0 }, 'jobs.list_jobs', { [name]: globs }));
    t.true(none.length >= 15 && areShort(none), `compiling, ${name}: ${none}`);
    const list = { jobs: 2, names };
    const some = await slicesOf(() => call(list, 'jobs.list_jobs', { [name]: literals }));
    t.true(some.length >= 8 && areShort(some), `${name}: ${some}`);
  }
});

test.serial('much metadata is compared with one job in several slices', async (t) => {
  const wanted = Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`x${at}`, 1]));
  const slices = await slicesOf(() =>
    call({ jobs: 3 }, 'jobs.list_jobs', { search_metadata: wanted }),
  );
  t.true(slices.length >= 11 && areShort(slices), `${slices}`);
  const metadata = { list: Array.from({ length: 1000 }, () => 'abcdefg') };
  const large = await slicesOf(() =>
    call({ jobs: 200, metadata }, 'jobs.list_jobs', { search_metadata: { list: [] } }),
  );
  t.true(large.length >= 9 && areShort(large), `${large}`);
});

test.serial('wanted metadata is written as text once, and equal entries match', async (t) => {
  let reads = 0;
  const ticket = {
    get id(): string {
      reads += 1;
      return 'X-1';
    },
  };
  const kwarg = { search_metadata: { ticket } };
  const found = await call(
    { jobs: 20, metadata: { ticket: { id: 'X-1' } } },
    'jobs.list_jobs',
    kwarg,
  );
  t.is(found instanceof Map ? found.size : 0, 20);
  t.is(reads, 1);
  const other = await call({ jobs: 20, metadata: { ticket: 'X-1' } }, 'jobs.list_jobs', kwarg);
  t.deepEqual(other, new Map());
});

test.serial('many returns and many running jobs are read with pauses', async (t) => {
  const job = await slicesOf(() =>
    call({ jobs: 1, returns: 1000 }, 'jobs.list_job', { jid: firstJid }),
  );
  t.true(job.length >= 18, `${job}`);
  const running = Array.from({ length: 1000 }, (_, number) => ({
    jid: `${number}`.padStart(20, '0'),
  }));
  const active = await slicesOf(() => call({ jobs: 1, running }, 'jobs.active'));
  t.true(active.length >= 19, `${active}`);
});

test.serial('items of a queue are packed and unpacked with pauses', async (t) => {
  const queues = new Queues(createMemoryStore());
  const items = Array.from({ length: 100 }, (_, number) => `${number}`.padEnd(60_000));
  const added = await slicesOf(() => queues.insert('q', items));
  t.true(added.length >= 49, `insert: ${added}`);
  const listed = await slicesOf(async () => t.deepEqual(await queues.items('q'), items));
  t.true(listed.length >= 49, `items: ${listed}`);
  const taken = await slicesOf(async () =>
    t.deepEqual(await queues.pop('q', 50), items.slice(0, 50)),
  );
  t.true(taken.length >= 49, `pop: ${taken}`);
  const removed = await slicesOf(() => queues.delete('q', items));
  t.true(removed.length >= 49, `delete: ${removed}`);
  t.is(await queues.length('q'), 0);
});
