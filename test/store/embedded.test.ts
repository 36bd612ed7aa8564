import { fork } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import { encodeKey, packNumber } from '../../store/encoding.ts';
import { openEmbeddedStore, type Store, StoreError } from '../../store/index.ts';
import { openLmdbTables } from '../../store/lmdb-tables.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const writer = fileURLToPath(new URL('../store-suite/acknowledging-writer.js', import.meta.url));

async function openIn(t: ExecutionContext, directory: string): Promise<Store> {
  const store = await openEmbeddedStore({ directory });
  t.teardown(() => store.close());
  return store;
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

test('a write that was acknowledged is there after the process was killed', async (t) => {
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

test('a directory is open once at a time, and free again when its holder is gone', async (t) => {
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

test('directory and files are for their owner alone, also when they were not', async (t) => {
  const directory = path.join(temporaryDirectory(t), 'state', 'store');
  const store = await openIn(t, directory);
  await store.close();
  chmodSync(directory, 0o755);
  for (const name of readdirSync(directory)) chmodSync(path.join(directory, name), 0o644);
  await openIn(t, directory);
  t.is(statSync(directory).mode & 0o777, 0o700);
  t.deepEqual(readdirSync(directory).sort(), ['data.mdb', 'holder-2', 'lock.mdb']);
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

test('a file that is no database is refused, and the directory is free again', async (t) => {
  const directory = temporaryDirectory(t);
  for (const content of ['short', 'x'.repeat(9000)]) {
    writeFileSync(path.join(directory, 'data.mdb'), content);
    await t.throwsAsync(openEmbeddedStore({ directory }), {
      instanceOf: StoreError,
      code: 'ERR_STORE_CORRUPT',
    });
  }
});

test('a directory of another layout is refused', async (t) => {
  const directory = temporaryDirectory(t);
  const tables = openLmdbTables(directory);
  await tables.transaction(() => tables.meta.put(encodeKey(['layout']), packNumber(2)));
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
