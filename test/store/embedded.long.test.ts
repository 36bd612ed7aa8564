import { fork } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import {
  createMemoryStore,
  type Key,
  openEmbeddedStore,
  readStore,
  restoreStore,
  type Store,
  StoreError,
  TableStore,
  unpackNumber,
} from '#store';
import { sweepExpired } from '#store/expiry.ts';
import { GroupCommit } from '#store/group-commit.ts';
import { encodeKey } from '#store/key-bytes.ts';
import { openLmdbTables } from '#store/lmdb-tables.ts';
import { layoutVersion, packNumber } from '#store/row-layout.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { storeSuite } from '../store-suite/suite.ts';

const writer = fileURLToPath(new URL('../store-suite/acknowledging-writer.ts', import.meta.url));

async function openIn(t: ExecutionContext, directory: string): Promise<Store> {
  const store = await openEmbeddedStore({ directory });
  t.teardown(() => store.close());
  return store;
}

for (const engine of ['memory', 'embedded'] as const) {
  test(`a list of the ${engine} store reads a limited number of bytes at a time`, async (t) => {
    const store =
      engine === 'memory' ? createMemoryStore() : await openIn(t, temporaryDirectory(t));
    const keys = Array.from({ length: 8 }, (_, i) => ['n', String(i)]);
    const value = Buffer.alloc(300_000);
    await store.write(keys.map((key) => ({ op: 'put', key, value })));
    const read: Key[] = [];
    for await (const { key } of store.list(['n'])) read.push(key);
    t.deepEqual(read.splice(0), keys);
    for await (const { key } of store.list(['n'])) {
      read.push(key);
      // The entries that were read before the deletion are still listed.
      if (read.length === 1) await store.write(keys.map((it) => ({ op: 'delete', key: it })));
    }
    t.deepEqual(read, keys.slice(0, 4));
  });
}

test('entries, revisions, streams and positions survive closing and opening', async (t) => {
  const directory = temporaryDirectory(t);
  const before = await openIn(t, directory);
  const revision = await before.write([
    { op: 'put', key: ['a'], value: Buffer.from('1') },
    { op: 'append', stream: 's', value: Buffer.from('1') },
    { op: 'append', stream: 's', value: Buffer.from('2') },
  ]);
  await before.stream('s').consumer('c').acknowledge(1);
  await before.close();
  const after = await openIn(t, directory);
  t.is((await after.get(['a']))?.revision, revision);
  const records = await after.stream('s').consumer('c').fetch(10);
  t.deepEqual(
    records.map(({ sequence }) => sequence),
    [2],
  );
  t.true((await after.write([{ op: 'delete', key: ['a'] }])) > revision);
});

test('an acknowledged write survives a kill of the process', async (t) => {
  const directory = temporaryDirectory(t);
  const child = fork(writer, [directory], { stdio: 'ignore' });
  let last = -1;
  child.on('message', (acknowledged) => {
    last = Number(acknowledged);
    if (last === 200) child.kill('SIGKILL');
  });
  await once(child, 'close');
  t.true(last >= 200);
  const store = await openIn(t, directory);
  for (let i = 0; i <= last; i++) t.truthy(await store.get(['k', String(i)]), `write ${i}`);
});

test('a directory can be opened once at a time, and is released when its holder ends', async (t) => {
  const directory = temporaryDirectory(t);
  const first = await openIn(t, directory);
  const error = await t.throwsAsync(openEmbeddedStore({ directory: `${directory}/.` }), {
    instanceOf: StoreError,
    code: 'ERR_STORE_LOCKED',
  });
  t.true(error?.message.includes(directory));
  await first.close();
  await t.notThrowsAsync(openIn(t, directory));
});

test('only their owner can use directory and files, even after other modes', async (t) => {
  const directory = path.join(temporaryDirectory(t), 'state', 'store');
  const store = await openIn(t, directory);
  await store.close();
  chmodSync(directory, 0o755);
  for (const name of readdirSync(directory)) chmodSync(path.join(directory, name), 0o644);
  await openIn(t, directory);
  t.is(statSync(directory).mode & 0o777, 0o700);
  t.deepEqual(readdirSync(directory).sort(), ['data.mdb', 'holder-2', 'holder.json', 'lock.mdb']);
  for (const name of readdirSync(directory)) {
    t.is(statSync(path.join(directory, name)).mode & 0o777, 0o600, name);
  }
});

test('a directory that others can write to, or replace, is refused', async (t) => {
  const parent = path.join(temporaryDirectory(t), 'parent');
  const directory = path.join(parent, 'store');
  mkdirSync(directory, { recursive: true });
  const refused = { instanceOf: StoreError, code: 'ERR_STORE_PERMISSIONS' };
  for (const mode of [0o777, 0o702, 0o720]) {
    chmodSync(directory, mode);
    await t.throwsAsync(openEmbeddedStore({ directory }), refused);
  }
  chmodSync(directory, 0o700);
  chmodSync(parent, 0o777);
  await t.throwsAsync(openEmbeddedStore({ directory }), refused);
  chmodSync(parent, 0o1777);
  await t.notThrowsAsync(openIn(t, directory));
});

test('a file that is not a database is refused, and the directory is released', async (t) => {
  const directory = temporaryDirectory(t);
  for (const content of ['short', 'x'.repeat(9000)]) {
    writeFileSync(path.join(directory, 'data.mdb'), content);
    await t.throwsAsync(openEmbeddedStore({ directory }), {
      instanceOf: StoreError,
      code: 'ERR_STORE_CORRUPT',
    });
  }
});

test('a directory with another layout is refused', async (t) => {
  const directory = temporaryDirectory(t);
  const tables = openLmdbTables(directory);
  await tables.transaction(() =>
    tables.meta.put(encodeKey(['layout']), packNumber(layoutVersion + 1)),
  );
  await tables.close();
  await t.throwsAsync(openEmbeddedStore({ directory }), {
    instanceOf: StoreError,
    code: 'ERR_STORE_VERSION',
  });
});

test('a path that cannot be a directory is refused', async (t) => {
  const directory = path.join(temporaryDirectory(t), 'file');
  writeFileSync(directory, '');
  await t.throwsAsync(openEmbeddedStore({ directory }), {
    instanceOf: StoreError,
    code: 'ERR_STORE_UNAVAILABLE',
  });
});

storeSuite('embedded', (t, now) => openEmbeddedStore({ directory: temporaryDirectory(t), now }));

storeSuite('memory', async (_t, now) => createMemoryStore({ now }));

test('a list reads few rows at first, and returns all rows', async (t) => {
  const tables = openLmdbTables(temporaryDirectory(t));
  let read = 0;
  const store = new TableStore(
    {
      ...tables,
      entries: {
        get: (key) => tables.entries.get(key),
        put: (key, value) => tables.entries.put(key, value),
        remove: (key) => tables.entries.remove(key),
        keys: (range) => tables.entries.keys(range),
        range: (range) => {
          const rows = tables.entries.range(range);
          read += rows.length;
          return rows;
        },
      },
    },
    () => 0,
  );
  t.teardown(() => store.close());
  const keyOf = (number: number): string[] => ['row', String(number).padStart(4, '0')];
  const value = Buffer.from('x');
  await store.write(
    Array.from({ length: 700 }, (_, number) => ({ op: 'put', key: keyOf(number), value })),
  );
  for await (const { key } of store.list(['row'])) {
    if (key[1] === '0003') break;
  }
  t.true(read <= 8, `${read} rows`);
  for (const reverse of [false, true]) {
    const keys = [];
    for await (const { key } of store.list(['row'], { reverse })) keys.push(key);
    const expected = Array.from({ length: 700 }, (_, number) => keyOf(number));
    t.deepEqual(keys, reverse ? expected.reverse() : expected);
  }
});

test('a limited list reads no more rows than it returns', async (t) => {
  const tables = openLmdbTables(temporaryDirectory(t));
  let rows = 0;
  const range = tables.entries.range.bind(tables.entries);
  tables.entries.range = (given) => {
    const found = range(given);
    rows += found.length;
    return found;
  };
  const store = new TableStore(tables, () => 0);
  t.teardown(() => store.close());
  const keys = Array.from({ length: 300 }, (_, i) => ['q', String(i)]);
  await store.write(keys.map((each) => ({ op: 'put', key: each, value: Uint8Array.of(1) })));
  for await (const entry of store.list(['q'], { limit: 1 })) t.deepEqual(entry.key, ['q', '0']);
  t.is(rows, 1);
  for await (const _ of store.list(['q'], { limit: 299, reverse: true }));
  t.is(rows, 300);
});

const key = ['pins', 'web1'];
const value = Uint8Array.of(3);

test('a closed store can be read without any change', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openEmbeddedStore({ directory, now: () => 0 });
  await store.write([{ op: 'put', key, value, expiresAt: 1 }]);
  await store.close();
  chmodSync(directory, 0o755);
  const data = path.join(directory, 'data.mdb');
  const before = readFileSync(data);
  const entry = await readStore(directory, (it) => it.get(key));
  t.deepEqual([...(entry?.value ?? [])], [...value]);
  t.deepEqual(readFileSync(data), before);
  t.is(statSync(directory).mode & 0o777, 0o755);
});

test('reading a missing store does not create one', async (t) => {
  const directory = path.join(temporaryDirectory(t), 'store');
  t.is(await readStore(directory, async () => 1), undefined);
  t.false(existsSync(directory));
});

test('an open store is not read, and can be opened again afterwards', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openEmbeddedStore({ directory });
  const read = readStore(directory, async () => 1);
  await t.throwsAsync(read, { instanceOf: StoreError, code: 'ERR_STORE_LOCKED' });
  await store.close();
  t.is(await readStore(directory, async () => 1), 1);
  await (await openEmbeddedStore({ directory })).close();
});

test('only expired entries are removed, in limited steps', async (t) => {
  const tables = openLmdbTables(temporaryDirectory(t));
  const store = new TableStore(tables, () => 0);
  t.teardown(() => store.close());
  const value = Buffer.from('value');
  const puts = Array.from({ length: 1500 }, (_, i) => ({
    op: 'put' as const,
    key: ['n', String(i)],
    value,
    expiresAt: 10,
  }));
  await store.write(puts);
  await store.write([
    { op: 'put', key: ['n', '0'], value, expiresAt: 30 },
    { op: 'put', key: ['n', '1'], value },
    { op: 'delete', key: ['n', '2'] },
    { op: 'put', key: ['n', '2'], value, expiresAt: 21 },
  ]);
  t.is(await sweepExpired(tables, 20), 1000);
  t.is(await sweepExpired(tables, 20), 497);
  t.is(await sweepExpired(tables, 20), 0);
  t.truthy(tables.entries.get(encodeKey(['n', '0'])));
  t.truthy(tables.entries.get(encodeKey(['n', '1'])));
  t.is(await sweepExpired(tables, 22), 1);
  t.is(tables.entries.get(encodeKey(['n', '2'])), undefined);
  t.is(await sweepExpired(tables, 31), 1);
  const rest = tables.entries.range({ from: Buffer.alloc(0), to: Buffer.of(0xff) });
  t.deepEqual(
    rest.map(({ key }) => key),
    [encodeKey(['n', '1'])],
  );
});

const layoutKey = encodeKey(['layout']);

/**
 * Creates a store with one entry.
 * @param layout - version that is written; `undefined`: none, as in layout 0
 */
async function storeOfLayout(t: ExecutionContext, layout: number | undefined): Promise<string> {
  const directory = path.join(temporaryDirectory(t), 'store');
  const store = await openEmbeddedStore({ directory });
  await store.write([{ op: 'put', key: ['k'], value: Buffer.from('v') }]);
  await store.close();
  const tables = openLmdbTables(directory);
  await tables.transaction(() => {
    if (layout === undefined) tables.meta.remove(layoutKey);
    else tables.meta.put(layoutKey, packNumber(layout));
  });
  await tables.close();
  return directory;
}

async function layoutOf(directory: string): Promise<number> {
  const tables = openLmdbTables(directory);
  const layout = unpackNumber(tables.meta.get(layoutKey));
  await tables.close();
  return layout;
}

test('an older store is upgraded once, and a backup of it is stored', async (t) => {
  const directory = await storeOfLayout(t, undefined);
  const upgrades: unknown[] = [];
  const onUpgrade = (upgrade: unknown): number => upgrades.push(upgrade);
  const store = await openEmbeddedStore({ directory, onUpgrade });
  t.truthy(await store.get(['k']));
  await store.close();
  const file = `${directory}-layout-0.mdb`;
  t.deepEqual(upgrades, [
    { from: 0, to: layoutVersion, old: { file, bytes: statSync(file).size } },
  ]);
  t.is(await layoutOf(directory), layoutVersion);
  await (await openEmbeddedStore({ directory, onUpgrade })).close();
  t.is(upgrades.length, 1);
  const { restored } = await restoreStore({ file, directory });
  t.like(restored, { layout: 0, entries: { k: 1 }, problems: [] });
});

test('an interrupted upgrade is copied again', async (t) => {
  const directory = await storeOfLayout(t, undefined);
  const file = `${directory}-layout-0.mdb`;
  writeFileSync(file, 'half');
  await (await openEmbeddedStore({ directory })).close();
  t.true(readFileSync(file).length > 4);
  await t.notThrowsAsync(restoreStore({ file, directory }));
});

test('an old store that cannot be backed up is not upgraded', async (t) => {
  const directory = await storeOfLayout(t, undefined);
  mkdirSync(path.join(`${directory}-layout-0.mdb`, 'in-the-way'), { recursive: true });
  await t.throwsAsync(openEmbeddedStore({ directory }));
  t.is(await layoutOf(directory), 0);
});

test('a new store has the current layout, and no backup', async (t) => {
  const root = temporaryDirectory(t);
  const directory = path.join(root, 'store');
  await (await openEmbeddedStore({ directory })).close();
  t.is(await layoutOf(directory), layoutVersion);
  t.deepEqual(readdirSync(root), ['store']);
});

test('a store with a later layout is refused and not changed', async (t) => {
  const directory = await storeOfLayout(t, layoutVersion + 1);
  const error = await t.throwsAsync(openEmbeddedStore({ directory }), {
    code: 'ERR_STORE_VERSION',
  });
  t.regex(error?.message ?? '', /layout 3.*up to 2/);
  t.is(await layoutOf(directory), 3);
  t.deepEqual(readdirSync(path.dirname(directory)), ['store']);
});

const failed = new StoreError('ERR_STORE_UNAVAILABLE', 'a write failed');

/** Returns an engine whose transactions complete when the test allows it, and which counts them. */
function engine() {
  let given = 0;
  let open = (): void => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const commits = new GroupCommit(
    async (work) => {
      await gate;
      given += 1;
      work();
    },
    async () => failed,
  );
  return { commits, open, given: () => given };
}

test('writes that wait for a transaction share it, and each gets its own result', async (t) => {
  const { commits, open, given } = engine();
  const results = [1, 2, 3].map((number) => commits.run(() => number));
  open();
  t.deepEqual(await Promise.all(results), [1, 2, 3]);
  t.is(given(), 1);
  t.is(await commits.run(() => 4), 4);
  t.is(given(), 2);
});

test('a failed condition affects only its own work', async (t) => {
  const { commits, open } = engine();
  const refused = new StoreError('ERR_REVISION', 'another revision');
  const works = [
    commits.run(() => 'before'),
    commits.run(() => {
      throw refused;
    }),
    commits.run(() => 'behind'),
  ];
  open();
  const [before, between, behind] = await Promise.allSettled(works);
  t.like(before, { value: 'before' });
  t.like(between, { reason: refused });
  t.like(behind, { value: 'behind' });
});

test('a failed transaction fails for all of its work, and the next one is separate', async (t) => {
  const { commits, open } = engine();
  const works = [
    commits.run(() => 1),
    commits.run(() => {
      throw new Error('the disk');
    }),
  ];
  open();
  for (const outcome of await Promise.allSettled(works)) t.like(outcome, { reason: failed });
  t.is(await commits.run(() => 2), 2);
});

test('an engine without a transaction leaves no caller waiting', async (t) => {
  const commits = new GroupCommit(
    () => Promise.reject(new Error('closed')),
    async () => failed,
  );
  const works = [commits.run(() => 1), commits.run(() => 2)];
  for (const outcome of await Promise.allSettled(works)) t.like(outcome, { reason: failed });
  await t.throwsAsync(
    commits.run(() => 3),
    { is: failed },
  );
});
