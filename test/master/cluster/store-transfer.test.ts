/** The files that an export of a master contains, and that an import accepts. */
import { hash } from 'node:crypto';
import {
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { exportStore, importStore } from '#cluster';
import { type MasterConfig, resolveMasterConfig, storeDirectory } from '#config';
import { openEmbeddedStore } from '#store';
import { temporaryDirectory } from '../../helpers/temporary-directory.ts';
import { directories, writeMasterKeys } from '../../helpers/vector-master.ts';

interface Places {
  readonly root: string;
  /** Master with a store and keys. */
  readonly own: MasterConfig;
  /** Master without files. */
  readonly other: MasterConfig;
}

async function createPlaces(t: ExecutionContext): Promise<Places> {
  const root = temporaryDirectory(t);
  const [own, other] = ['own', 'other'].map((name) =>
    resolveMasterConfig(directories(path.join(root, name))),
  );
  if (own === undefined || other === undefined) throw new Error('two masters are needed');
  writeMasterKeys(own.pkiDir);
  const store = await openEmbeddedStore({ directory: storeDirectory(own.stateDir) });
  await store.write([{ op: 'put', key: ['state', 'kept'], value: Buffer.from('1') }]);
  await store.close();
  return { root, own, other };
}

function write(file: string, text = ''): void {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
}

function manifestOf(exported: string): { format: string; files: Record<string, string> } {
  return JSON.parse(readFileSync(path.join(exported, 'export.json'), 'utf8'));
}

test('an export omits unfinished exports and backups at any depth of state_dir', async (t) => {
  const { own } = await createPlaces(t);
  const { stateDir, pkiDir } = own;
  write(path.join(stateDir, 'backups', '.saltbridge-backup-1-x', 'data.mdb'));
  write(path.join(stateDir, 'backups', 'minute.mdb'));
  write(path.join(stateDir, 'site', 'file.0123456789ab.tmp'));
  write(path.join(pkiDir, 'minions', '.saltbridge-x.tmp'));
  // The export itself is unfinished when it lists the files.
  const exported = path.join(stateDir, 'exports', 'new');
  mkdirSync(path.dirname(exported));
  await exportStore(own, exported);
  const names = readdirSync(exported, { recursive: true, encoding: 'utf8' });
  t.deepEqual(
    names.filter((it) => /\.saltbridge-|\.tmp$|data\.mdb$/.test(it)),
    [],
  );
  t.true(names.includes(path.join('state', 'backups', 'minute.mdb')));
});

test('an export that contains temporary files can be imported', async (t) => {
  const { root, own, other } = await createPlaces(t);
  const exported = path.join(root, 'export');
  await exportStore(own, exported);
  const manifest = manifestOf(exported);
  const name = path.join('state', 'site', 'file.0123456789ab.tmp');
  write(path.join(exported, name), 'half');
  manifest.files[name] = hash('sha256', 'half');
  writeFileSync(path.join(exported, 'export.json'), JSON.stringify(manifest));
  await importStore(other, exported);
  const imported = path.join(other.stateDir, 'site', 'file.0123456789ab.tmp');
  t.is(readFileSync(imported, 'utf8'), 'half');
});

test('an export with links has format 2, and an import accepts links in both formats', async (t) => {
  const { root, own, other } = await createPlaces(t);
  const plain = path.join(root, 'plain');
  await exportStore(own, plain);
  t.is(manifestOf(plain).format, 'saltbridge-export-1');
  write(path.join(own.stateDir, 'site', 'bundles', '3', 'file'));
  symlinkSync('bundles/3', path.join(own.stateDir, 'site', 'current'));
  const linked = path.join(root, 'linked');
  await exportStore(own, linked);
  const manifest = manifestOf(linked);
  t.is(manifest.format, 'saltbridge-export-2');
  await importStore(other, linked);
  t.is(readlinkSync(path.join(other.stateDir, 'site', 'current')), 'bundles/3');
  const third = resolveMasterConfig(directories(path.join(root, 'third')));
  const early = { ...manifest, format: 'saltbridge-export-1' };
  writeFileSync(path.join(linked, 'export.json'), JSON.stringify(early));
  await importStore(third, linked);
  t.is(readlinkSync(path.join(third.stateDir, 'site', 'current')), 'bundles/3');
});

test('a link to a missing file is in the way of an export and of an import', async (t) => {
  const { root, own, other } = await createPlaces(t);
  const taken = path.join(root, 'taken');
  symlinkSync('missing', taken);
  await t.throwsAsync(exportStore(own, taken), {
    code: 'ERR_STORE_BACKUP',
    message: /already exists and is not overwritten/,
  });
  t.true(lstatSync(taken).isSymbolicLink());
  symlinkSync('bundles/3', path.join(own.stateDir, 'current'));
  const exported = path.join(root, 'export');
  await exportStore(own, exported);
  mkdirSync(other.stateDir, { recursive: true });
  symlinkSync('bundles/4', path.join(other.stateDir, 'current'));
  await t.throwsAsync(importStore(other, exported), {
    code: 'ERR_STORE_BACKUP',
    message: /already exists and differs/,
  });
  t.is(readlinkSync(path.join(other.stateDir, 'current')), 'bundles/4');
});
