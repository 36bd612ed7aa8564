import test from 'ava';
import fc from 'fast-check';
import { MineStore, type MineStoreOptions } from '../../../master/data/mine.ts';
import { packLocal } from '../../../minion-protocol/index.ts';
import { createMemoryStore } from '../../../store/index.ts';

function openMine(options: Partial<MineStoreOptions> = {}): MineStore {
  const store = options.store ?? createMemoryStore({ now: () => 0 });
  const bounds = { maxBytes: 10_000, maxValueBytes: 1000, keepMarksMs: 60_000 };
  return new MineStore({ store, isOn: true, ...bounds, now: () => 0, ...options });
}

test('values are merged, or replace all when clear is set', async (t) => {
  const mine = openMine();
  await mine.update('m', { data: { a: 1, b: 1 }, clear: false }, undefined);
  await mine.update('m', { data: { b: 2 }, clear: false }, undefined);
  t.deepEqual({ ...(await mine.all('m')) }, { a: 1, b: 2 });
  await mine.update('m', { data: { c: 3 }, clear: true }, undefined);
  t.deepEqual({ ...(await mine.all('m')) }, { c: 3 });
  await mine.delete('m', 'c', undefined);
  t.deepEqual({ ...(await mine.all('m')) }, {});
});

test('a minion changes nobody else', async (t) => {
  const mine = openMine();
  await mine.update('m', { data: { a: 1 }, clear: false }, undefined);
  await mine.update('m2', { data: { a: 2 }, clear: true }, undefined);
  await mine.flush('m2');
  t.deepEqual({ ...(await mine.all('m')) }, { a: 1 });
});

test('the mine is there after a restart', async (t) => {
  const store = createMemoryStore({ now: () => 0 });
  await openMine({ store }).update('m', { data: { a: 1 }, clear: false }, undefined);
  t.deepEqual({ ...(await openMine({ store }).all('m')) }, { a: 1 });
});

test('a request that comes again, after whatever came between, changes nothing', async (t) => {
  const store = createMemoryStore({ now: () => 0 });
  const first = { data: { a: 'old' }, clear: false };
  await openMine({ store }).update('m', first, 'mark-1');
  const mine = openMine({ store });
  await mine.update('m', { data: { a: 'new' }, clear: false }, 'mark-2');
  await mine.update('m', first, 'mark-1');
  t.deepEqual({ ...(await mine.all('m')) }, { a: 'new' });
});

test('a value that is too large is left out, and the others are kept', async (t) => {
  const mine = openMine();
  const data = { big: 'x'.repeat(2000), small: 1, [`n${'a'.repeat(256)}`]: 1, '': 1 };
  t.deepEqual(
    [...(await mine.update('m', { data, clear: false }, undefined))].map((name) => name.length),
    [3, 257, 0],
  );
  t.deepEqual({ ...(await mine.all('m')) }, { small: 1 });
});

test('a mine never grows beyond its bound, whatever is written at the same time', async (t) => {
  const value = fc.record({
    fun: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
    size: fc.integer({ min: 0, max: 900 }),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(value, { maxLength: 30 }), async (writes) => {
      const mine = openMine({ maxBytes: 2000 });
      await Promise.all(
        writes.map(({ fun, size }) =>
          mine.update('m', { data: { [fun]: 'x'.repeat(size) }, clear: false }, undefined),
        ),
      );
      const kept = Object.entries(await mine.all('m'));
      const bytes = kept.reduce((sum, [fun, text]) => sum + fun.length + packLocal(text).length, 0);
      t.true(bytes <= 2000);
    }),
    { numRuns: 50 },
  );
});

test('the owners are told one by one', async (t) => {
  const mine = openMine();
  for (const id of ['a', 'a1', 'b']) {
    await mine.update(id, { data: { x: 1, y: 2, 'z\u{10fffe}': 3 }, clear: false }, undefined);
  }
  const owners: string[] = [];
  for await (const owner of mine.owners()) owners.push(owner);
  t.deepEqual(owners, ['a', 'a1', 'b']);
  await mine.forget('a1');
  t.deepEqual({ ...(await mine.all('a1')) }, {});
});
