import { fork } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  chmodSync,
  chownSync,
  copyFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import test, { type ExecutionContext } from 'ava';
import {
  type EmbeddedStore,
  inspectStore,
  openEmbeddedStore,
  readBackup,
  restoreStore,
  StoreError,
} from '#store';
import { writeBackup } from '#store/backup.ts';
import { encodeKey } from '#store/key-bytes.ts';
import { openLmdbTables } from '#store/lmdb-tables.ts';
import { layoutVersion, packNumber } from '#store/row-layout.ts';
import { testWhere } from '../helpers/needs.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';

const backer = fileURLToPath(new URL('../store-suite/endless-backups.ts', import.meta.url));

interface Place {
  readonly directory: string;
  readonly backups: string;
}

function makePlace(t: ExecutionContext): Place {
  const root = temporaryDirectory(t);
  const backups = path.join(root, 'backups');
  mkdirSync(backups);
  return { directory: path.join(root, 'store'), backups };
}

async function openIn(t: ExecutionContext, directory: string): Promise<EmbeddedStore> {
  const store = await openEmbeddedStore({ directory });
  t.teardown(() => store.close());
  return store;
}

async function put(store: EmbeddedStore, name: string): Promise<void> {
  await store.write([{ op: 'put', key: ['k', name], value: Buffer.from(name) }]);
}

/**
 * Creates a closed store with the entry `old`, a backup of it, and the entry `new`, which was
 * written after the backup.
 */
async function makeBackup(t: ExecutionContext): Promise<Place & { readonly file: string }> {
  const place = makePlace(t);
  const store = await openIn(t, place.directory);
  await put(store, 'old');
  const { file } = await store.backup(path.join(place.backups, 'b.mdb'));
  await put(store, 'new');
  await store.close();
  return { ...place, file };
}

test('a backup of a store in use holds it as it was at one moment, and opens again', async (t) => {
  const { directory, backups } = makePlace(t);
  const store = await openIn(t, directory);
  let isDone = false;
  let written = 0;
  const writer = (async (): Promise<void> => {
    while (!isDone) {
      const value = Buffer.from(String(written));
      await store.write([
        { op: 'put', key: ['left'], value },
        { op: 'put', key: ['right'], value },
      ]);
      written += 1;
    }
  })();
  const { file, bytes } = await store.backup(path.join(backups, 'b.mdb'));
  isDone = true;
  await writer;
  t.is(statSync(file).mode & 0o777, 0o600);
  t.is(statSync(file).size, bytes);
  t.deepEqual(readdirSync(backups), ['b.mdb']);
  await store.close();
  await restoreStore({ file, directory });
  const restored = await openIn(t, directory);
  const [left, right] = [await restored.get(['left']), await restored.get(['right'])];
  t.deepEqual(left?.value, right?.value);
});

test('in a directory a backup is named by the time; no file is ever replaced', async (t) => {
  const { directory, backups } = makePlace(t);
  const store = await openEmbeddedStore({
    directory,
    now: () => Date.UTC(2024, 0, 2, 3, 4, 5, 678),
  });
  t.teardown(() => store.close());
  const { file } = await store.backup(backups);
  t.is(file, path.join(backups, 'saltbridge-store-20240102T030405Z.mdb'));
  const before = readFileSync(file);
  for (const target of [backups, file]) {
    await t.throwsAsync(store.backup(target), {
      instanceOf: StoreError,
      code: 'ERR_STORE_BACKUP',
    });
  }
  t.deepEqual(readFileSync(file), before);
});

test('a backup to a directory without write permission is refused, and leaves no file', async (t) => {
  const { directory, backups } = makePlace(t);
  const store = await openIn(t, directory);
  const error = await t.throwsAsync(store.backup(path.join(backups, 'missing', 'b.mdb')), {
    code: 'ERR_STORE_BACKUP',
  });
  t.true(error?.message.includes('ENOENT'));
  t.deepEqual(readdirSync(backups), []);
});

test('killed backups leave no half file under a name, and the next one clears up', async (t) => {
  const { directory, backups } = makePlace(t);
  const child = fork(backer, [directory, backups], { stdio: 'ignore' });
  await once(child, 'message');
  child.kill('SIGKILL');
  await once(child, 'close');
  const whole = readdirSync(backups).filter((name) => name.endsWith('.mdb'));
  t.true(whole.length > 0);
  for (const name of whole) await t.notThrowsAsync(readBackup(path.join(backups, name)), name);
  mkdirSync(path.join(backups, `.saltbridge-backup-${child.pid}-left`));
  const store = await openIn(t, directory);
  await store.backup(path.join(backups, 'last.mdb'));
  t.deepEqual(
    readdirSync(backups).filter((name) => name.startsWith('.')),
    [],
  );
});

test('restoring puts the backup in place and keeps the old store beside it', async (t) => {
  const { directory, file } = await makeBackup(t);
  const { old, restored } = await restoreStore({ file, directory });
  t.deepEqual(restored.entries, { k: 1 });
  const store = await openIn(t, directory);
  t.truthy(await store.get(['k', 'old']));
  t.is(await store.get(['k', 'new']), undefined);
  await store.close();
  const before = await openIn(t, old ?? '');
  t.truthy(await before.get(['k', 'new']));
  const names = readdirSync(path.dirname(directory)).sort();
  t.deepEqual(names, ['backups', 'store', path.basename(old ?? '')].sort());
});

test('data that must not return is removed before the restored store is in place', async (t) => {
  const { directory, file } = await makeBackup(t);
  await restoreStore({
    file,
    directory,
    adapt: async (store) => {
      await store.write([{ op: 'delete-prefix', prefix: ['k'] }]);
    },
  });
  const store = await openIn(t, directory);
  t.is(await store.get(['k', 'old']), undefined);
});

test('a store that is open is not restored over', async (t) => {
  const { directory, file } = await makeBackup(t);
  const store = await openIn(t, directory);
  await t.throwsAsync(restoreStore({ file, directory }), { code: 'ERR_STORE_LOCKED' });
  t.truthy(await store.get(['k', 'new']));
});

const damages: Readonly<Record<string, (file: string) => void>> = {
  'cut short': (file) => truncateSync(file, 10_000),
  'cut to nothing': (file) => truncateSync(file),
  grown: (file) => appendFileSync(file, 'x'),
  'altered in one bit': (file) => {
    const bytes = readFileSync(file);
    bytes.writeUInt8(bytes.readUInt8(9000) ^ 1, 9000);
    writeFileSync(file, bytes);
  },
};
for (const [damage, cause] of Object.entries(damages)) {
  test(`a backup that is ${damage} is refused, and the store stays as it is`, async (t) => {
    const { directory, file } = await makeBackup(t);
    cause(file);
    await t.throwsAsync(restoreStore({ file, directory }), { code: 'ERR_STORE_CORRUPT' });
    const store = await openIn(t, directory);
    t.truthy(await store.get(['k', 'new']));
    t.deepEqual(readdirSync(path.dirname(directory)).sort(), ['backups', 'store']);
  });
}

const asRoot = testWhere(process.getuid?.() === 0, 'root');

asRoot('files restored by root belong to the owner of the folder of the store', async (t) => {
  const root = temporaryDirectory(t);
  const store = await openEmbeddedStore({ directory: path.join(root, 'first') });
  const { file } = await store.backup(path.join(root, 'backup'));
  await store.close();
  const stateDir = path.join(root, 'state');
  mkdirSync(stateDir, { mode: 0o700 });
  chownSync(stateDir, 1234, 4321);
  const directory = path.join(stateDir, 'store');
  await restoreStore({ file, directory });
  const { old = '' } = await restoreStore({ file, directory });
  for (const made of [directory, path.join(directory, 'data.mdb'), old]) {
    const { uid, gid } = statSync(made);
    t.deepEqual([uid, gid], [1234, 4321], made);
  }
});

test('a backup of a later layout is refused', async (t) => {
  const { directory, file } = await makeBackup(t);
  const tables = openLmdbTables(directory);
  await tables.transaction(() =>
    tables.meta.put(encodeKey(['layout']), packNumber(layoutVersion + 1)),
  );
  const later = path.join(path.dirname(file), 'later.mdb');
  await writeBackup((to) => tables.copyTo(to), later, new Date());
  await tables.close();
  await t.throwsAsync(restoreStore({ file: later, directory }), { code: 'ERR_STORE_VERSION' });
});

test('a store is inspected beside the process that has it open', async (t) => {
  const { directory } = makePlace(t);
  const store = await openIn(t, directory);
  await store.write([
    { op: 'put', key: ['a', 'b'], value: Buffer.from('1'), expiresAt: Date.now() + 60_000 },
    { op: 'put', key: ['a', 'c'], value: Buffer.from('2') },
    { op: 'append', stream: 's', value: Buffer.from('3') },
  ]);
  t.deepEqual(await inspectStore(directory), {
    layout: layoutVersion,
    revision: 1,
    entries: { a: 2 },
    records: 1,
    problems: [],
  });
});

test('rows that do not fit together are named', async (t) => {
  const { directory } = makePlace(t);
  const store = await openIn(t, directory);
  await put(store, 'a');
  await store.close();
  const tables = openLmdbTables(directory);
  await tables.transaction(() => {
    tables.entries.put(Buffer.from('zz\0'), Buffer.from('short'));
    tables.expiries.put(Buffer.concat([packNumber(5), Buffer.from('gone\0')]), Buffer.alloc(0));
    tables.records.put(Buffer.concat([Buffer.from('s\0'), packNumber(7)]), Buffer.alloc(8));
  });
  await tables.close();
  const { problems } = await inspectStore(directory);
  t.is(problems.length, 3);
});

test('a truncated file is reported, and does not end the process that reads it', async (t) => {
  const { directory, backups } = makePlace(t);
  const store = await openIn(t, directory);
  for (let i = 0; i < 50; i += 1) {
    await store.write([{ op: 'put', key: ['k', String(i)], value: Buffer.alloc(20_000) }]);
  }
  await store.close();
  const cut = path.join(backups, 'cut');
  mkdirSync(cut);
  copyFileSync(path.join(directory, 'data.mdb'), path.join(cut, 'data.mdb'));
  truncateSync(path.join(cut, 'data.mdb'), 300_000);
  chmodSync(cut, 0o700);
  await t.throwsAsync(inspectStore(cut), { code: 'ERR_STORE_CORRUPT' });
});
