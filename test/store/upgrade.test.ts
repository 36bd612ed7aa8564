import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { encodeKey, packNumber, unpackNumber } from '../../store/encoding.ts';
import { openEmbeddedStore, restoreStore, type StoreUpgrade } from '../../store/index.ts';
import { openLmdbTables } from '../../store/lmdb-tables.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const layoutKey = encodeKey(['layout']);

/** A store with one entry whose layout is written as given; `undefined`: as layout 0 is, not. */
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

test('an older store is upgraded once, and the old one is kept as a backup', async (t) => {
  const directory = await storeOfLayout(t, undefined);
  const upgrades: StoreUpgrade[] = [];
  const onUpgrade = (upgrade: StoreUpgrade): number => upgrades.push(upgrade);
  const store = await openEmbeddedStore({ directory, onUpgrade });
  t.truthy(await store.get(['k']));
  await store.close();
  const file = `${directory}-layout-0.mdb`;
  t.deepEqual(upgrades, [{ from: 0, to: 1, old: { file, bytes: statSync(file).size } }]);
  t.is(await layoutOf(directory), 1);
  await (await openEmbeddedStore({ directory, onUpgrade })).close();
  t.is(upgrades.length, 1);
  const { restored } = await restoreStore({ file, directory });
  t.like(restored, { layout: 0, entries: { k: 1 }, problems: [] });
});

test('the copy of an upgrade that was cut short is made again', async (t) => {
  const directory = await storeOfLayout(t, undefined);
  const file = `${directory}-layout-0.mdb`;
  writeFileSync(file, 'half');
  await (await openEmbeddedStore({ directory })).close();
  t.true(readFileSync(file).length > 4);
  await t.notThrowsAsync(restoreStore({ file, directory }));
});

test('an old store that cannot be kept is not upgraded', async (t) => {
  const directory = await storeOfLayout(t, undefined);
  mkdirSync(path.join(`${directory}-layout-0.mdb`, 'in-the-way'), { recursive: true });
  await t.throwsAsync(openEmbeddedStore({ directory }));
  t.is(await layoutOf(directory), 0);
});

test('a new store is of the present layout, and nothing is kept beside it', async (t) => {
  const root = temporaryDirectory(t);
  const directory = path.join(root, 'store');
  await (await openEmbeddedStore({ directory })).close();
  t.is(await layoutOf(directory), 1);
  t.deepEqual(readdirSync(root), ['store']);
});

test('a store of a later layout is refused and left alone', async (t) => {
  const directory = await storeOfLayout(t, 2);
  const error = await t.throwsAsync(openEmbeddedStore({ directory }), {
    code: 'ERR_STORE_VERSION',
  });
  t.regex(error?.message ?? '', /layout 2.*up to 1/);
  t.is(await layoutOf(directory), 2);
  t.deepEqual(readdirSync(path.dirname(directory)), ['store']);
});
