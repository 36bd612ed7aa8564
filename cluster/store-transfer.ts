/** Exports, imports and copies a complete master. A cluster can be the source or the target. */

import { lstat, mkdtemp, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import Type from 'typebox';
import { type MasterConfig, storeDirectory } from '#config';
import {
  clusterPlaceOf,
  dropTables,
  inStore,
  notRestored,
  ownPrefix,
  PkiDir,
  version,
} from '#master';
import {
  codeOf,
  compileSchema,
  isDiskFull,
  makeDirectory,
  readTextIfPresent,
  tryParseJson,
  writeFileAtomically,
} from '#runtime';
import {
  type ContentDigest,
  copyStore,
  digestStore,
  type EmbeddedStore,
  type Key,
  probeHolder,
  readStore,
  restoreStore,
  StoreError,
} from '#store';
import { exportSealKey, writeOwnKeys } from './cluster-keys.ts';
import { forEachFile } from './for-each-file.ts';
import {
  assertNoLog,
  clusterTables,
  detachMember,
  initCluster,
  type OfflineClusterOptions,
} from './offline-cluster.ts';
import { deriveClusterKey, readSecret } from './open-cluster.ts';
import { writeMinionKeys } from './shared-keys.ts';
import { copyFile, digestFile, giveToOwners, isLink, listFiles } from './state-files.ts';

// An export is a directory (0700):
//
// store.mdb     a backup of the store, converted to that of a standalone master
// state/, pki/  the other files of state_dir, and the files of pki_dir
// export.json   checksums of all of it; written last

const Digest = Type.String({ pattern: '^[0-9a-f]{64}$' });
const Manifest = Type.Object({
  /** Earlier programs cannot import symbolic links, so an export with links has its own format. */
  format: Type.Union([Type.Literal('saltbridge-export-1'), Type.Literal('saltbridge-export-2')]),
  version: Type.String(),
  /** Time of the export, in milliseconds since 1970. */
  madeAt: Type.Number({ minimum: 0 }),
  content: Type.Object({
    sha256: Digest,
    entries: Type.Integer({ minimum: 0 }),
    records: Type.Integer({ minimum: 0 }),
  }),
  files: Type.Record(Type.String(), Digest),
});
type Manifest = Type.Static<typeof Manifest>;
const manifestCheck = compileSchema(Manifest);

const manifestName = 'export.json';
const storeName = 'store.mdb';
/** Names of unfinished backups, exports and files, which can contain keys that exports omit. */
const unfinishedName = /^\.saltbridge-|\.[0-9a-f]{12}\.tmp$/;
/** Maximum size of the manifest in bytes, enough for the names of a million minions. */
const maxManifestBytes = 256 * 1024 * 1024;

/**
 * Tables that are not transferred: tables that only exist in a cluster, and tables that must not be
 * restored.
 */
const leftOut: readonly Key[] = [...clusterTables, ...notRestored];

/** Result of an export or an import. */
export interface TransferReceipt {
  /** Directory of the export, or of the imported store. */
  readonly directory: string;
  /** Digest of the content of the store. It is equal for the source and the target. */
  readonly content: ContentDigest;
  /** Number of transferred files that are not part of the store, for example key files. */
  readonly files: number;
  /** The cluster that was created with the imported store, and this master's name in it. */
  readonly cluster?: {
    readonly name: string;
    readonly member: string;
    readonly secretFile: string;
  };
}

/**
 * Exports the store, the keys and the other files of a master, or of a cluster member, to a new
 * directory. The master may be running. The directory appears only when it is complete. It contains
 * the files of a standalone master, even if the source is a cluster member. When a master starts
 * with these files, minions sign in once more, as after a restore.
 * @param target - a directory that does not exist
 * @throws StoreError ERR_STORE_BACKUP, ERR_STORE_DIGEST, ERR_STORE_FULL; ERR_STORE_UNAVAILABLE
 * without a store; ERR_CLUSTER_SECRET
 */
export async function exportStore(
  config: MasterConfig,
  target: string,
  { now = Date.now }: Pick<OfflineClusterOptions, 'now'> = {},
): Promise<TransferReceipt> {
  const directory = path.resolve(target);
  if (await isThere(directory)) {
    throw new StoreError(
      'ERR_STORE_BACKUP',
      `${directory} already exists and is not overwritten; choose a different name`,
    );
  }
  return asTransfer(directory, async () => {
    const staging = await mkdtemp(path.join(path.dirname(directory), '.saltbridge-export-'));
    try {
      const { content, files } = await writeExport(config, staging, now());
      await rename(staging, directory);
      return { directory, content, files: Object.keys(files).length - 1 };
    } finally {
      await rm(staging, { recursive: true, force: true });
    }
  });
}

async function writeExport(config: MasterConfig, staging: string, at: number): Promise<Manifest> {
  const { cluster, stateDir, pkiDir } = config;
  const store = path.join(staging, 'store');
  await copyStore(storeDirectory(stateDir), store);
  const member = cluster === null ? undefined : clusterPlaceOf(cluster, stateDir).member;
  const before = await digestStore(store, {
    ...(member === undefined ? {} : { own: ownPrefix(member) }),
    without: leftOut,
    at,
  });
  const isLeftOut = (name: string): boolean => isOfThisPlace(config, name) || isPassing(name);
  await copyFiles(stateDir, path.join(staging, 'state'), await listFiles(stateDir, isLeftOut));
  if (member === undefined) {
    await copyFiles(pkiDir, path.join(staging, 'pki'), await listFiles(pkiDir, isPassing));
  } else {
    await writeMemberKeys(config, store, staging);
    await detachMember(store, member, () => at);
  }
  const content = await sealExport(store, path.join(staging, storeName), at);
  assertSame(before, content, 'the exported store', storeDirectory(stateDir));
  for (const name of await listFiles(staging, (it) => it === 'state' || it === 'pki')) {
    if (name !== storeName) await rm(path.join(staging, name));
  }
  await rm(store, { recursive: true });
  const names = await listFiles(staging);
  const files = Object.fromEntries(names.map((name) => [name, '']));
  const links: string[] = [];
  await forEachFile(names, async (name) => {
    const file = path.join(staging, name);
    if (await isLink(file)) links.push(name);
    files[name] = await digestFile(file);
  });
  const format = links.length === 0 ? 'saltbridge-export-1' : 'saltbridge-export-2';
  const manifest: Manifest = { format, version, madeAt: at, content, files };
  await writeFileAtomically(path.join(staging, manifestName), JSON.stringify(manifest), 0o600);
  return manifest;
}

/** Whether an export omits a relative path in `state_dir` or `pki_dir`. */
function isPassing(name: string): boolean {
  return name.startsWith('.') || unfinishedName.test(path.basename(name));
}

/**
 * Whether an export omits a relative path in a state directory because it is part of the store or
 * only useful on this host.
 */
function isOfThisPlace({ cluster, stateDir, pkiDir }: MasterConfig, name: string): boolean {
  const file = path.join(stateDir, name);
  const secretFile = cluster === null ? undefined : clusterPlaceOf(cluster, stateDir).secretFile;
  return (
    /^(store$|store-|joining-|handover-|localclient$|publications$)/.test(name) ||
    file === path.resolve(stateDir, pkiDir) ||
    file === secretFile ||
    name === 'cluster.secret'
  );
}

async function copyFiles(from: string, to: string, names: readonly string[]): Promise<void> {
  await forEachFile(names, (name) => copyFile(path.join(from, name), path.join(to, name)));
}

/** Writes the keys of a cluster as the key files of a standalone master. */
async function writeMemberKeys(
  { cluster, stateDir }: MasterConfig,
  store: string,
  staging: string,
): Promise<void> {
  if (cluster === null) return;
  const { name } = cluster;
  const secret = await readSecret(clusterPlaceOf(cluster, stateDir).secretFile);
  const own = { name, derive: (purpose: string) => deriveClusterKey(secret, name, purpose) };
  const pkiDir = path.join(staging, 'pki');
  const target = path.join(staging, 'state');
  await makeDirectory(target, 0o700);
  const dir = await PkiDir.open(pkiDir);
  await readStore(store, async (rows) => {
    await exportSealKey({ stateDir: target }, rows, own);
    await writeOwnKeys({ pkiDir }, rows, { cluster: own, now: Date.now });
    await writeMinionKeys(rows, dir);
  });
}

/**
 * Removes from a copy of a store the tables that must not be transferred, and creates a backup of
 * this copy.
 */
async function sealExport(directory: string, file: string, at: number): Promise<ContentDigest> {
  const seal = async (store: EmbeddedStore): Promise<void> => {
    await dropTables(store, leftOut);
    await store.backup(file);
  };
  await inStore(directory, seal, () => at);
  return digestStore(directory, { without: leftOut, at });
}

/**
 * Checks that two digests of a store's content are equal.
 * @throws StoreError ERR_STORE_DIGEST
 */
function assertSame(
  expected: ContentDigest,
  found: ContentDigest,
  what: string,
  original: string,
): void {
  if (expected.sha256 === found.sha256) return;
  throw new StoreError(
    'ERR_STORE_DIGEST',
    `the content of ${what} differs from ${original}: expected ${describe(expected)}, found ${describe(found)}`,
  );
}

function describe({ sha256, entries, records }: ContentDigest): string {
  return `${entries} entries and ${records} records with the digest ${sha256}`;
}

/**
 * Imports the result of {@link exportStore} as the store and the files of a new master. If the
 * configuration has a cluster, the master becomes the first member of a new one. If it fails,
 * nothing is changed.
 * @throws StoreError ERR_STORE_BACKUP, ERR_STORE_CORRUPT, ERR_STORE_VERSION, ERR_STORE_DIGEST,
 * ERR_STORE_FULL; ERR_CLUSTER_FOUNDED if a store or a cluster already exists
 */
export async function importStore(
  config: MasterConfig,
  source: string,
  options: OfflineClusterOptions = {},
): Promise<TransferReceipt> {
  const { now = Date.now } = options;
  const from = path.resolve(source);
  const manifest = await readManifest(from);
  const moves = await planMoves(config, from, manifest);
  if (config.cluster !== null) await assertNoLog(config, options);
  const undo: (() => Promise<void>)[] = [];
  return asTransfer(config.stateDir, async () => {
    try {
      await forEachFile(moves, async ({ file, target }) => {
        await copyFile(file, target);
        undo.push(() => rm(target, { force: true }));
      });
      const cluster = await placeStore(config, { from, manifest, options, undo, at: now() });
      await giveToOwners([config.stateDir, config.pkiDir]);
      const directory = storeDirectory(config.stateDir);
      const files = Object.keys(manifest.files).length - 1;
      return { directory, content: manifest.content, files, ...(cluster && { cluster }) };
    } catch (error) {
      for (const step of undo.reverse()) await step();
      throw error;
    }
  });
}

interface PlaceContext {
  readonly from: string;
  readonly manifest: Manifest;
  readonly options: OfflineClusterOptions;
  /**
   * Functions that undo the steps completed so far. Empty once the log of the cluster has been
   * created, because the import can then no longer be undone.
   */
  readonly undo: (() => Promise<void>)[];
  readonly at: number;
}

async function placeStore(
  config: MasterConfig,
  { from, manifest, options, undo, at }: PlaceContext,
): Promise<TransferReceipt['cluster']> {
  const directory = storeDirectory(config.stateDir);
  undo.push(() => rm(directory, { recursive: true, force: true }));
  await restoreStore({ file: path.join(from, storeName), directory });
  const { madeAt, content } = manifest;
  const found = await digestStore(directory, { without: leftOut, at: madeAt });
  assertSame(content, found, 'the imported store', from);
  if (config.cluster === null) return undefined;
  const { member, secretFile } = clusterPlaceOf(config.cluster, config.stateDir);
  if (!(await isThere(secretFile))) undo.push(() => rm(secretFile, { force: true }));
  const before = await digestStore(directory, { without: leftOut, at });
  const clock = { ...options, now: () => at };
  await initCluster(config, clock, async () => {
    const own = ownPrefix(member);
    const after = await digestStore(directory, { own, without: leftOut, at });
    assertSame(before, after, 'the store of the member', from);
    undo.length = 0;
  });
  return { name: config.cluster.name, member, secretFile };
}

/**
 * Reads the manifest of an export.
 * @throws StoreError ERR_STORE_BACKUP, ERR_STORE_CORRUPT
 */
async function readManifest(directory: string): Promise<Manifest> {
  const file = path.join(directory, manifestName);
  const size = await stat(file).then(
    (found) => found.size,
    () => undefined,
  );
  if (size === undefined || size > maxManifestBytes) {
    const message = `${directory} is not an export; give the directory that saltbridge store export created`;
    throw new StoreError('ERR_STORE_BACKUP', message);
  }
  const value = tryParseJson((await readTextIfPresent(file)) ?? '');
  if (manifestCheck.Check(value)) return value;
  throw new StoreError('ERR_STORE_CORRUPT', `${file} was not written by saltbridge store export`);
}

interface FileMove {
  readonly file: string;
  readonly target: string;
}

/**
 * Checks all files of an export and the places to which they will be copied.
 * @returns the files that do not exist there yet
 * @throws StoreError ERR_STORE_CORRUPT, ERR_STORE_BACKUP
 */
async function planMoves(
  { stateDir, pkiDir, cluster }: MasterConfig,
  from: string,
  { files }: Manifest,
): Promise<FileMove[]> {
  const data = path.join(storeDirectory(stateDir), 'data.mdb');
  if (await isThere(data)) {
    const hint = '; to complete an interrupted import, run saltbridge cluster init';
    const message = `${data} already exists: move ${stateDir} away${cluster === null ? '' : hint}`;
    throw new StoreError('ERR_CLUSTER_FOUNDED', message);
  }
  const names = await listFiles(from, (it) => it === manifestName);
  const isComplete = names.length === Object.keys(files).length && names.includes(storeName);
  if (!isComplete) throw damagedExport(from, 'files are missing or unexpected');
  const moves: FileMove[] = [];
  await forEachFile(names, async (name) => {
    const file = path.join(from, name);
    const digest = await digestFile(file);
    if (files[name] !== digest) throw damagedExport(from, `${name} does not match its checksum`);
    if (name === storeName) return;
    const [top = '', ...rest] = name.split(path.sep);
    const place = new Map([
      ['state', stateDir],
      ['pki', pkiDir],
    ]).get(top);
    if (place === undefined) throw damagedExport(from, `${name} does not belong to an export`);
    const target = path.join(place, ...rest);
    const known = await digestFile(target, await isLink(file)).catch(() => undefined);
    if (known === digest) return;
    if (await isThere(target)) {
      const message = `${target} already exists and differs from the file in ${from}: move ${target} away`;
      throw new StoreError('ERR_STORE_BACKUP', message);
    }
    moves.push({ file, target });
  });
  return moves;
}

function damagedExport(directory: string, why: string): StoreError {
  return new StoreError('ERR_STORE_CORRUPT', `${directory} is not a complete export: ${why}`);
}

/**
 * Copies a stopped master or cluster member to the directories of another configuration. The copy
 * is a standalone master, or the first member of a new cluster. The original stays unchanged.
 * Afterwards, start only one of the two.
 * @param config - configuration of the copy
 * @throws the errors of {@link exportStore} and {@link importStore}; StoreError ERR_STORE_LOCKED if
 * the original is running
 */
export async function copyMaster(
  config: MasterConfig,
  source: MasterConfig,
  options: OfflineClusterOptions = {},
): Promise<TransferReceipt> {
  const [from, to] = [source, config].map(({ stateDir }) => path.resolve(stateDir));
  if (from === to) {
    const message = `${to} is the state_dir of both masters: to convert it in place, use saltbridge cluster init or saltbridge cluster leave`;
    throw new StoreError('ERR_STORE_BACKUP', message);
  }
  const { state } = await probeHolder(storeDirectory(source.stateDir));
  if (state !== 'none') {
    const message = `${source.stateDir} is in use: stop its master, so that nothing is written after the copy`;
    throw new StoreError('ERR_STORE_LOCKED', message);
  }
  await makeDirectory(config.stateDir, 0o700);
  const staging = await mkdtemp(path.join(config.stateDir, 'joining-'));
  try {
    const directory = path.join(staging, 'export');
    await exportStore(source, directory, options);
    return await importStore(config, directory, options);
  } finally {
    await rm(staging, { recursive: true, force: true });
  }
}

async function isThere(file: string): Promise<boolean> {
  return (await lstat(file).catch(() => undefined)) !== undefined;
}

/** Converts errors of the operating system to store errors. */
async function asTransfer<T>(directory: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    const code = codeOf(cause);
    if (isDiskFull(cause)) {
      throw new StoreError('ERR_STORE_FULL', `the disk is full: cannot write ${directory}`, {
        cause,
      });
    }
    if (code === undefined || code.startsWith('ERR_')) throw cause;
    throw new StoreError('ERR_STORE_BACKUP', `cannot write ${directory} (${code})`, { cause });
  }
}
