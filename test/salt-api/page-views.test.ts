/** What the status page keeps and shares, so that it costs the same however many look. */
import test from 'ava';
import type { MetricFamily, MinionInfo } from '../../master/index.ts';
import { CachedValue, memoizeByObject, StatusHistory } from '../../salt-api/page/overview.ts';

/** A clock that is set, in milliseconds, and a master that counts how often it is asked. */
function stage(): {
  readonly history: StatusHistory;
  readonly asked: () => number;
  set(seconds: number, present: Readonly<Record<string, boolean>>, requests?: number): void;
} {
  let now = 1;
  let minions: MinionInfo[] = [];
  let requests = 0;
  let asked = 0;
  const family = (): MetricFamily => ({
    type: 'counter',
    name: 'saltbridge_requests_total',
    help: '',
    labels: [],
    samples: [{ labels: {}, value: requests }],
  });
  const source = {
    metrics: async () => [family()],
    minions: async () => {
      asked += 1;
      return minions;
    },
  };
  return {
    history: new StatusHistory(source, () => now),
    asked: () => asked,
    set: (seconds, present, total = 0) => {
      now = seconds * 1000;
      minions = Object.entries(present).map(([id, isPresent]) => ({ id, isPresent }));
      requests = total;
    },
  };
}

test('minions are looked at while somebody asks for them, and for ten minutes more', async (t) => {
  const { history, asked, set } = stage();
  set(10, { a: true });
  await history.sample();
  t.is(asked(), 0);
  await history.minions();
  set(600, { a: true });
  await history.sample();
  t.is(asked(), 2);
  set(611, { a: true });
  await history.sample();
  t.is(asked(), 2);
});

test('since when a minion is there is known from when somebody looked', async (t) => {
  const { history, set } = stage();
  set(10, { a: true, b: false });
  t.deepEqual(await history.minions(), [
    { id: 'a', isPresent: true },
    { id: 'b', isPresent: false },
  ]);
  set(20, { a: true, b: true, c: true });
  await history.sample();
  set(25, { a: true, b: true, c: true });
  t.deepEqual(await history.minions(), [
    { id: 'a', isPresent: true },
    { id: 'b', isPresent: true, since: 20_000 },
    { id: 'c', isPresent: true, since: 20_000 },
  ]);
  // Deleted and made anew: nothing of the former one is left.
  set(30, { a: true });
  await history.sample();
  set(35, { a: true, b: true });
  t.deepEqual((await history.minions())[1], { id: 'b', isPresent: true, since: 35_000 });
  // Nobody looked for a while: it may have gone and come.
  set(1000, { a: true, b: true });
  t.deepEqual(await history.minions(), [
    { id: 'a', isPresent: true },
    { id: 'b', isPresent: true },
  ]);
});

test('rates are counted whether anybody looks or not', async (t) => {
  const { history, set } = stage();
  for (const [seconds, total] of [
    [10, 0],
    [20, 50],
    [30, 50],
    [40, 20],
  ] as const) {
    set(seconds, {}, total);
    await history.sample();
  }
  t.deepEqual(history.rates()[0], { title: 'Requests', values: [5, 0, 0] });
});

test('who asks at about the same time gets the same, looked up once', async (t) => {
  let now = 0;
  let looks = 0;
  const shared = new CachedValue(
    async () => {
      looks += 1;
      if (looks === 3) throw new Error('stopped');
      return { looks };
    },
    1000,
    () => now,
  );
  const [first, second] = await Promise.all([shared.get(), shared.get()]);
  t.is(first, second);
  now = 999;
  t.is(await shared.get(), first);
  now = 1000;
  t.is((await shared.get()).looks, 2);
  shared.forget();
  await t.throwsAsync(shared.get());
  t.is((await shared.get()).looks, 4);
});

test('what is made of the same object is made once', (t) => {
  const make = memoizeByObject((list: readonly number[]) => ({ sum: list.length }));
  const list = [1, 2];
  t.is(make(list), make(list));
  t.not(make(list), make([1, 2]));
});
