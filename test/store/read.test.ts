import { chmodSync, existsSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import test from 'ava';
import { openEmbeddedStore, readStore, StoreError } from '../../store/index.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const key = ['pins', 'web1'];
const value = Uint8Array.of(3);

test('a store that nobody has open is read, and nothing of it changes', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openEmbeddedStore({ directory });
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

test('where there is no store none is made', async (t) => {
  const directory = path.join(temporaryDirectory(t), 'store');
  t.is(await readStore(directory, async () => 1), undefined);
  t.false(existsSync(directory));
});

test('a store that is open is not read, and can be opened again afterwards', async (t) => {
  const directory = temporaryDirectory(t);
  const store = await openEmbeddedStore({ directory });
  const read = readStore(directory, async () => 1);
  await t.throwsAsync(read, { instanceOf: StoreError, code: 'ERR_STORE_LOCKED' });
  await store.close();
  t.is(await readStore(directory, async () => 1), 1);
  await (await openEmbeddedStore({ directory })).close();
});
