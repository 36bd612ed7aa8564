/** Identifiers of processed requests, by which the master recognizes repetitions. */

import test from 'ava';
import { JobCache } from '#master/jobs/job-cache.ts';
import { jobLimits } from '#master/jobs/limits.ts';
import { RequestMarks } from '#master/jobs/request-marks.ts';
import { MineStore } from '#salt/mine/mine-store.ts';
import { createMemoryStore, type Entry, type Operation, type Store } from '#store';

const maxMarks = jobLimits.requestMarks.perOwner ?? 0;

function openMarks(store: Store): RequestMarks {
  return new RequestMarks({ store, root: 'marks', keepMs: 60_000, now: () => 0 });
}

function openMine(store: Store): MineStore {
  const sizes = { maxBytes: 10_000, maxValueBytes: 10_000 };
  return new MineStore({ store, isOn: true, ...sizes, keepMarksMs: 60_000, now: () => 0 });
}

async function rowsOf(store: Store, root: string): Promise<readonly Entry[]> {
  const rows: Entry[] = [];
  for await (const row of store.list([root])) rows.push(row);
  return rows;
}

test('the requests of a minion leave one row of limited size', async (t) => {
  const store = createMemoryStore({ now: () => 0 });
  const marks = openMarks(store);
  for (let number = 0; number < 3 * maxMarks; number += 1) {
    t.true(await marks.write('m', `request ${number}`, []));
  }
  const rows = await rowsOf(store, 'marks');
  t.deepEqual(
    rows.map(({ key, value }) => [key, value.length]),
    [[['marks', 'm'], 8 * maxMarks]],
  );
});

test('the latest requests are recognized, also by another process', async (t) => {
  const store = createMemoryStore({ now: () => 0 });
  const first = openMarks(store);
  for (let number = 0; number <= maxMarks; number += 1) {
    await first.write('m', `request ${number}`, []);
  }
  const second = openMarks(store);
  const put: Operation = { op: 'put', key: ['row', 'm'], value: new Uint8Array(1) };
  for (const number of [1, 2, maxMarks]) {
    t.true(await second.has('m', `request ${number}`));
    t.false(await second.write('m', `request ${number}`, [put]));
  }
  t.false(await second.has('m', 'request 0'));
  t.false(await second.has('m2', 'request 1'));
  t.is((await rowsOf(store, 'row')).length, 0);
});

test('requests of one minion at two members of a cluster are all recognized', async (t) => {
  const store = createMemoryStore({ now: () => 0 });
  const members = [openMarks(store), openMarks(store)];
  const marks = Array.from({ length: 20 }, (_, number) => `request ${number}`);
  const written = marks.map((mark, number) => members[number % 2]?.write('m', mark, []));
  t.deepEqual(await Promise.all(written), Array(20).fill(true));
  for (const mark of marks) t.true(await openMarks(store).has('m', mark));
});

test('a row with another revision refuses the request and its mark', async (t) => {
  const store = createMemoryStore({ now: () => 0 });
  const marks = openMarks(store);
  const put: Operation = { op: 'put', key: ['a'], value: new Uint8Array(0), ifRevision: 0 };
  t.true(await marks.write('m', 'first', [put]));
  t.false(await marks.write('m', 'second', [put]));
  t.false(await marks.has('m', 'second'));
});

test('mines and self-made jobs keep one row of marks for each minion', async (t) => {
  const store = createMemoryStore({ now: () => 0 });
  const mine = openMine(store);
  const common = { isOn: true, keepMs: 60_000, keepMarksMs: 60_000, now: () => 0 };
  const cache = new JobCache({ store, ...common });
  for (let number = 0; number < 20; number += 1) {
    await mine.delete('m', 'absent', `delete ${number}`);
    await mine.update('m', { data: { a: number }, clear: false }, `update ${number}`);
    await cache.addMark('m', `job ${number}`);
  }
  t.is((await rowsOf(store, 'mine-marks')).length, 1);
  t.is((await rowsOf(store, 'self-made')).length, 1);
  await mine.forget('m');
  t.deepEqual(await rowsOf(store, 'mine-marks'), []);
});
