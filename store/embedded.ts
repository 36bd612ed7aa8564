import { readFileSync } from 'node:fs';
import { rm, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import { type Database, open, type RootDatabase } from 'lmdb';
import { type BackupReceipt, writeBackup } from './backup.ts';
import {
  type DirectoryLock,
  type LockHolder,
  lockDirectory,
  preparePrivateDirectory,
  preparePrivateFile,
  probeFreeSpace,
} from './directory.ts';
import { StoreError, storeUnavailable } from './errors.ts';
import type { Store } from './store.ts';
import {
  checkSignature,
  encodeKey,
  layoutKey,
  layoutVersion,
  logStateKey,
  packNumber,
  readLayout,
  TableStore,
} from './table-store.ts';
import type { Row, RowRange, Table, Tables } from './tables.ts';

/** Something to be written, and whom to tell. */
class PendingWrite<T> {
  readonly #work: () => T;
  readonly #resolve: (result: T) => void;
  readonly #reject: (error: unknown) => void;
  #outcome: { readonly result: T } | { readonly error: StoreError } | undefined;

  constructor(work: () => T, resolve: (result: T) => void, reject: (error: unknown) => void) {
    this.#work = work;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /** A condition that does not hold is this one's own business: no other one fails by it. */
  run(): void {
    try {
      this.#outcome = { result: this.#work() };
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      this.#outcome = { error };
    }
  }

  /** What was written is durable. */
  done(): void {
    if (this.#outcome === undefined) return;
    if ('error' in this.#outcome) this.#reject(this.#outcome.error);
    else this.#resolve(this.#outcome.result);
  }

  failed(error: unknown): void {
    this.#reject(error);
  }
}

/**
 * Writes together what waits for a transaction: whatever is asked for until the engine gives one
 * shares it, its commit and its synchronisation with the disk.
 */
export class GroupCommit {
  readonly #transaction: (work: () => void) => Promise<unknown>;
  readonly #toError: (cause: unknown) => Promise<StoreError>;
  #waiting: Pick<PendingWrite<unknown>, 'run' | 'done' | 'failed'>[] = [];

  /**
   * @param transaction does the work in one transaction; takes it back where it throws
   * @param toError what those are told whose transaction failed
   */
  constructor(
    transaction: (work: () => void) => Promise<unknown>,
    toError: (cause: unknown) => Promise<StoreError>,
  ) {
    this.#transaction = transaction;
    this.#toError = toError;
  }

  /**
   * @param work throws a StoreError before it writes anything, or none
   * @throws StoreError that of the work; that of a transaction which failed
   */
  run<T>(work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push(new PendingWrite(work, resolve, reject));
      if (this.#waiting.length === 1) void this.#commit();
    });
  }

  async #commit(): Promise<void> {
    let group = this.#waiting;
    try {
      await this.#transaction(() => {
        group = this.#waiting;
        this.#waiting = [];
        for (const one of group) one.run();
      });
    } catch (cause) {
      // The engine gave no transaction at all.
      if (group === this.#waiting) this.#waiting = [];
      const error = await this.#toError(cause);
      for (const one of group) one.failed(error);
      return;
    }
    for (const one of group) one.done();
  }
}

/** How long a full disk is left alone before it is tried again, milliseconds. */
const probeIntervalMs = 2000;

interface DiskSpaceGuardOptions {
  /** Writes as much as an ordinary write needs, and takes it away again. */
  readonly probe: () => Promise<unknown>;
  /** Told when the disk is found full, and when a write has succeeded again. */
  readonly onChange: (isFull: boolean) => void;
}

/**
 * Keeps writes from a disk that is full: the first one that fails closes the way for all, and a
 * probe of its own opens it again. So a burst of writes costs one failure of the engine, which
 * writes a line to standard error for each, and its end is noticed without any traffic.
 */
class DiskSpaceGuard {
  readonly #options: DiskSpaceGuardOptions;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: DiskSpaceGuardOptions) {
    this.#options = options;
  }

  /** Whether writes are being refused. */
  get isFull(): boolean {
    return this.#timer !== undefined;
  }

  /** @throws StoreError ERR_STORE_FULL without trying while the disk is known to be full */
  async guard<T>(write: () => Promise<T>): Promise<T> {
    if (this.isFull) throw new StoreError('ERR_STORE_FULL', diskFullMessage);
    try {
      return await write();
    } catch (error) {
      if (error instanceof StoreError && error.code === 'ERR_STORE_FULL') this.#closeWay();
      throw error;
    }
  }

  /** Probes no more. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #closeWay(): void {
    if (this.isFull) return;
    this.#wait();
    this.#options.onChange(true);
  }

  #wait(): void {
    this.#timer = setTimeout(() => {
      this.#options.probe().then(
        () => this.#openWay(),
        () => {
          // Stopped meanwhile, or still full: whoever writes is told so.
          if (this.isFull) this.#wait();
        },
      );
    }, probeIntervalMs).unref();
  }

  #openWay(): void {
    if (!this.isFull) return;
    this.stop();
    this.#options.onChange(false);
  }
}

/** The words for a write that found no room. */
const diskFullMessage = 'the disk of the store is full: nothing was kept';

const binary = { keyEncoding: 'binary', encoding: 'binary' } as const;

/** ENOSPC, EFBIG and EDQUOT as LMDB gives them. */
const fullCodes: ReadonlySet<unknown> = new Set([28, 27, 122]);
/** EIO: of a failing disk, but also what LMDB gives when only a part of a write found room. */
const inputOutputError = 5;
/** With less room than this, a part of a write is more likely: more than the largest request. */
const lowSpaceBytes = 128 * 1024 * 1024;

/** Tables in an LMDB environment. */
export interface LmdbTables extends Tables {
  /** Writes a consistent copy, without free pages, as `data.mdb` in an existing directory. */
  copyTo(directory: string): Promise<void>;
}

/**
 * Opens or creates an LMDB environment in a directory. Transactions asked for while one is being
 * synchronised share the next commit.
 * @param isReadOnly - opens one that exists, also beside the process that writes it
 * @throws StoreError ERR_STORE_UNAVAILABLE, ERR_STORE_FULL
 */
export function openLmdbTables(directory: string, isReadOnly = false): LmdbTables {
  try {
    // Without overlapping synchronisation a promise resolves when the data and then the page
    // that points to it are on disk. Measured with 1, 64 and 1,000 writes under way: overlapping
    // and waiting for `flushed` is not reliably faster.
    const environment = open<Buffer, Buffer>({
      path: directory,
      maxDbs: 4,
      overlappingSync: false,
      // With it, lmdb makes a promise for each batch that only it knows: a commit that fails
      // would be an unhandled rejection, which ends the process.
      eventTurnBatching: false,
      readOnly: isReadOnly,
      ...binary,
    });
    return tablesOf(environment, directory);
  } catch (cause) {
    throw engineFailure(`the store in ${directory} could not be opened`, cause);
  }
}

function tablesOf(environment: RootDatabase<Buffer, Buffer>, directory: string): LmdbTables {
  const table = (name: string): Table => new LmdbTable(environment.openDB({ name, ...binary }));
  const commits = new GroupCommit(
    // A child transaction, so that a group that throws is taken back.
    (work) => environment.childTransaction(work),
    async (cause) =>
      engineFailure('a write failed', await toStoreError(cause), await isLowOnSpace(directory)),
  );
  return {
    entries: table('entries'),
    expiries: table('expiries'),
    records: table('records'),
    meta: table('meta'),
    transaction: (work) => commits.run(work),
    copyTo: async (target) => {
      try {
        await environment.backup(target, true);
      } catch (cause) {
        throw engineFailure('the store could not be copied', cause);
      }
    },
    close: () => environment.close(),
  };
}

class LmdbTable implements Table {
  readonly #database: Database<Buffer, Buffer>;

  constructor(database: Database<Buffer, Buffer>) {
    this.#database = database;
  }

  get(key: Buffer): Buffer | undefined {
    return this.#database.getBinary(key);
  }

  put(key: Buffer, value: Buffer): void {
    this.#database.putSync(key, value);
  }

  remove(key: Buffer): void {
    this.#database.removeSync(key);
  }

  range({ from, to, limit, reverse = false }: RowRange): Row[] {
    const bounds = reverse
      ? { start: to, exclusiveStart: true, end: from, inclusiveEnd: true }
      : { start: from, end: to };
    const count = limit === undefined || limit === Number.POSITIVE_INFINITY ? {} : { limit };
    return Array.from(this.#database.getRange({ ...bounds, ...count, reverse }), (row) => ({
      key: Buffer.from(row.key),
      value: Buffer.from(row.value),
    }));
  }
}

/**
 * Why a commit failed. lmdb gives it as a promise on the error, rejected in the same turn; nobody
 * else handles it.
 */
async function toStoreError(error: unknown): Promise<unknown> {
  if (!(error instanceof Error) || !('commitError' in error)) return error;
  const told = Promise.resolve(error.commitError).then(
    () => error,
    (cause: unknown) => cause,
  );
  const untold = new Promise((resolve) => {
    setImmediate(() => resolve(error));
  });
  return Promise.race([told, untold]);
}

async function isLowOnSpace(directory: string): Promise<boolean> {
  const disk = await statfs(directory).catch(() => undefined);
  return disk !== undefined && disk.bavail * disk.bsize < lowSpaceBytes;
}

function engineFailure(what: string, cause: unknown, hasLittleRoom = false): StoreError {
  if (cause instanceof Error && isFull(cause, hasLittleRoom)) {
    return new StoreError('ERR_STORE_FULL', diskFullMessage, { cause });
  }
  return storeUnavailable(what, cause);
}

function isFull(error: Error, hasLittleRoom: boolean): boolean {
  if ('code' in error) {
    return fullCodes.has(error.code) || (hasLittleRoom && error.code === inputOutputError);
  }
  // The copy gives its reason as text alone.
  return /no space left|quota exceeded|file too large/i.test(error.message);
}

/** The library that holds the files of an embedded store, for instance `lmdb 3.5.6`. */
export function engineVersion(): string {
  const file = new URL('package.json', import.meta.resolve('lmdb'));
  const { version }: { version: string } = JSON.parse(readFileSync(file, 'utf8'));
  return `lmdb ${version}`;
}

// The holder of a store, as recorded in the store.

/** The process that has a store, and how many have had it: what was made under another epoch is past. */
interface StoreHolder extends LockHolder {
  /** Higher than that of every process that had the store before, and than after a restore. */
  readonly epoch: number;
}

const holderKey = encodeKey(['holder']);

/**
 * The record of this process in the store. Each write looks for it in its own transaction, so that
 * a process which was replaced writes nothing more, however that came about and however late it
 * notices.
 */
class HolderRecord {
  readonly holder: StoreHolder;
  readonly #meta: Table;
  readonly #own: Buffer;
  /** As it was when the store was opened; a disk that was full then has it still. */
  readonly #previous: Buffer | undefined;
  #onFenced: ((error: StoreError) => void) | undefined;

  constructor(
    { meta }: Pick<Tables, 'meta'>,
    { holder, generation }: DirectoryLock,
    onFenced: EmbeddedStoreOptions['onFenced'],
  ) {
    this.#meta = meta;
    this.#onFenced = onFenced;
    this.#previous = meta.get(holderKey);
    this.holder = { epoch: Math.max(epochOf(this.#previous) + 1, generation), ...holder };
    this.#own = Buffer.from(JSON.stringify(this.holder));
  }

  /**
   * Inside a transaction, before it writes anything.
   * @throws StoreError ERR_STORE_FENCED
   */
  assert(): void {
    const found = this.#meta.get(holderKey);
    if (found?.equals(this.#own)) return;
    if (!isSame(found, this.#previous)) {
      const message = `process ${this.holder.pid} has lost the store to epoch ${epochOf(found)}`;
      throw this.#fenced(new StoreError('ERR_STORE_FENCED', message));
    }
    this.#meta.put(holderKey, this.#own);
  }

  /** After the transaction, which is given up: whoever is told may use the store. */
  #fenced(error: StoreError): StoreError {
    const tell = this.#onFenced;
    this.#onFenced = undefined;
    if (tell !== undefined) setImmediate(tell, error);
    return error;
  }
}

function epochOf(record: Buffer | undefined): number {
  return record === undefined ? 0 : JSON.parse(record.toString()).epoch;
}

function isSame(a: Buffer | undefined, b: Buffer | undefined): boolean {
  return a === undefined || b === undefined ? a === b : a.equals(b);
}

/** A store of an older layout was brought to the present one. */
export interface StoreUpgrade {
  readonly from: number;
  readonly to: number;
  /** The store as it was before, as a backup; it is kept until somebody removes it. */
  readonly old: BackupReceipt;
}

/**
 * The steps between layouts, each from the layout that is its index to the next; all of them are
 * one transaction.
 */
const layoutSteps: readonly ((tables: Tables) => void)[] = [
  // Layout 0 has the rows of layout 1 and does not say so.
  () => {},
  // The rows of layout 2 are those of layout 1. Programs of layout 1 do not know that another
  // process may have taken the directory over, and would write beside it.
  () => {},
];

/**
 * Brings the tables to the present layout. The old store is kept as a backup beside the directory
 * (`<directory>-layout-<n>.mdb`) before the first change.
 * @returns what was done; `undefined` if there was nothing to do, or the store is a new one
 * @throws StoreError ERR_STORE_VERSION for a layout of a later version, ERR_STORE_FULL
 */
async function upgradeTables(
  tables: LmdbTables,
  directory: string,
  now: Date,
): Promise<StoreUpgrade | undefined> {
  const layout = readLayout(tables, directory);
  if (layout === layoutVersion) return undefined;
  const old = isEmpty(tables)
    ? undefined
    : await backUpBeforeUpgrade(tables, directory, layout, now);
  await tables.transaction(() => {
    for (const step of layoutSteps.slice(layout)) step(tables);
    tables.meta.put(layoutKey, packNumber(layoutVersion));
  });
  return old === undefined ? undefined : { from: layout, to: layoutVersion, old };
}

/** An upgrade that was cut short left a copy of the same store: it is made again. */
async function backUpBeforeUpgrade(
  tables: LmdbTables,
  directory: string,
  layout: number,
  now: Date,
): Promise<BackupReceipt> {
  const file = `${directory}-layout-${layout}.mdb`;
  await rm(file, { force: true });
  return writeBackup((partial) => tables.copyTo(partial), file, now);
}

function isEmpty(tables: Tables): boolean {
  return [tables.entries, tables.expiries, tables.records, tables.meta].every(hasNoRows);
}

function hasNoRows(table: Table): boolean {
  const everything = { from: Buffer.alloc(0), to: Buffer.of(0xff) };
  return table.range({ ...everything, limit: 1 }).length === 0;
}

/** As large as LMDB makes it for 126 readers, and on whole pages. */
const lockFileBytes = 12_288;

/** What an empty store takes, on whole pages. */
const newStoreBytes = 32_768;

/** How the embedded store is opened. */
export interface EmbeddedStoreOptions {
  /**
   * Where it lives. Made if it is missing; private to its owner (0700, files 0600) afterwards.
   * A directory that others can write to, or whose parents they can, is refused.
   */
  readonly directory: string;
  /** The clock that entries expire by, in milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
  /** Told when its disk is found full, and when there is room again. */
  readonly onFull?: (isFull: boolean) => void;
  /** Told when a store of an older layout has been brought to the present one. */
  readonly onUpgrade?: (upgrade: StoreUpgrade) => void;
  /** Told once, when a write finds that another process has taken the store over. */
  readonly onFenced?: (error: StoreError) => void;
}

/** A {@link Store} in a directory of the local disk. */
export interface EmbeddedStore extends Store {
  /** Whether writes are refused with ERR_STORE_FULL until there is room again. */
  readonly isFull: boolean;
  /** This process, as it is recorded in the store. */
  readonly holder: StoreHolder;
  /**
   * Makes a backup while the store is in use, as it was at one moment: a file (0600) that appears
   * whole or not at all. Secrets in it stay sealed.
   * @param target - a file that is not there, or a directory, where it is named by the time
   * @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL
   */
  backup(target: string): Promise<BackupReceipt>;
}

/**
 * Opens a store in a directory of the local disk, in LMDB. One process has it open at a time.
 * A store of an older layout is upgraded; the old one is kept beside it as a backup.
 * @throws StoreError ERR_STORE_LOCKED, ERR_STORE_PERMISSIONS, ERR_STORE_CORRUPT,
 * ERR_STORE_VERSION, ERR_STORE_FULL, ERR_STORE_UNAVAILABLE, ERR_CLUSTER_LOG for that of a cluster
 */
export async function openEmbeddedStore(options: EmbeddedStoreOptions): Promise<EmbeddedStore> {
  const held = await openHeldTables(options);
  if (held.tables.meta.get(logStateKey) !== undefined) {
    await held.tables.close();
    const message = `${options.directory} is the store of a member of a cluster; saltbridge: cluster opens it, and saltbridge cluster leave makes it a store of its own`;
    throw new StoreError('ERR_CLUSTER_LOG', message);
  }
  return new LmdbStore(held);
}

/** Makes the store of a former member of a cluster one of its own. No process may have it open. */
export async function detachFromLog(directory: string): Promise<void> {
  const { tables } = await openHeldTables({ directory });
  try {
    await tables.transaction(() => tables.meta.remove(logStateKey));
  } finally {
    await tables.close();
  }
}

class LmdbStore extends TableStore implements EmbeddedStore {
  readonly #held: HeldTables;

  constructor(held: HeldTables) {
    super(held.tables, held.now);
    this.#held = held;
  }

  get holder(): StoreHolder {
    return this.#held.holder;
  }

  get isFull(): boolean {
    return this.#held.isFull;
  }

  backup(target: string): Promise<BackupReceipt> {
    return this.busy(() => this.#held.backup(target));
  }
}

/**
 * Opens the tables of a directory that this process holds from now on, as
 * {@link openEmbeddedStore} does.
 */
export async function openHeldTables(options: EmbeddedStoreOptions): Promise<HeldTables> {
  const directory = await prepareStoreDirectory(options.directory);
  const lock = await lockDirectory(directory);
  try {
    const now = options.now ?? Date.now;
    const tables = await openTables(directory);
    const upgrade = await closeOnFailure(tables, () =>
      upgradeTables(tables, directory, new Date(now())),
    );
    if (upgrade !== undefined) options.onUpgrade?.(upgrade);
    const { onFull = () => {}, onFenced } = options;
    const held = new HeldTables({ tables, lock, now, onFull, onFenced });
    await closeOnFailure(held.tables, () => held.recordHolder());
    return held;
  } catch (error) {
    await lock.release();
    throw error;
  }
}

interface HeldTablesDeps {
  readonly tables: LmdbTables;
  readonly lock: DirectoryLock;
  readonly now: () => number;
  readonly onFull: (isFull: boolean) => void;
  readonly onFenced: EmbeddedStoreOptions['onFenced'];
}

/** Tables of a directory that this process holds. */
export class HeldTables {
  /** Their transactions fail on a full disk, and once another process holds the directory. */
  readonly tables: Tables;
  readonly now: () => number;
  readonly #lmdb: LmdbTables;
  readonly #space: DiskSpaceGuard;
  readonly #holder: HolderRecord;

  constructor({ tables, lock, now, onFull, onFenced }: HeldTablesDeps) {
    const space = new DiskSpaceGuard({ probe: () => probeSpace(tables), onChange: onFull });
    const close = async (): Promise<void> => {
      space.stop();
      await tables.close();
      await lock.release();
    };
    const holder = new HolderRecord(tables, lock, onFenced);
    const transaction = <T>(work: () => T): Promise<T> =>
      space.guard(() =>
        tables.transaction(() => {
          holder.assert();
          return work();
        }),
      );
    this.tables = { ...tables, transaction, close };
    this.now = now;
    this.#lmdb = tables;
    this.#space = space;
    this.#holder = holder;
  }

  get holder(): StoreHolder {
    return this.#holder.holder;
  }

  get isFull(): boolean {
    return this.#space.isFull;
  }

  /** A disk that is full takes it with the first write that finds room. */
  async recordHolder(): Promise<void> {
    try {
      await this.#space.guard(() => this.#lmdb.transaction(() => this.#holder.assert()));
    } catch (error) {
      if (!(error instanceof StoreError && error.code === 'ERR_STORE_FULL')) throw error;
    }
  }

  /** @throws StoreError ERR_STORE_BACKUP, ERR_STORE_FULL */
  backup(target: string): Promise<BackupReceipt> {
    return writeBackup((directory) => this.#lmdb.copyTo(directory), target, new Date(this.now()));
  }
}

const probeKey = encodeKey(['probe']);
const probeBytes = 256 * 1024;

/** The room that it took stays with the file, so that small writes find some afterwards. */
async function probeSpace(tables: Tables): Promise<void> {
  await tables.transaction(() => tables.meta.put(probeKey, Buffer.alloc(probeBytes)));
  await tables.transaction(() => tables.meta.remove(probeKey));
}

/**
 * Makes the directory if it is missing, and gives its real path.
 * @throws StoreError ERR_STORE_PERMISSIONS, ERR_STORE_UNAVAILABLE
 */
export async function prepareStoreDirectory(directory: string): Promise<string> {
  try {
    return await preparePrivateDirectory(directory);
  } catch (cause) {
    if (cause instanceof StoreError) throw cause;
    throw storeUnavailable(`${directory} cannot be used`, cause);
  }
}

async function openTables(directory: string): Promise<LmdbTables> {
  const data = path.join(directory, 'data.mdb');
  await preparePrivateFile(data);
  await preparePrivateFile(path.join(directory, 'lock.mdb'), lockFileBytes);
  await checkSignature(data);
  // LMDB ends the process where there is no room for its first pages.
  if ((await stat(data)).size < newStoreBytes) await probeFreeSpace(directory, newStoreBytes);
  return openLmdbTables(directory);
}

async function closeOnFailure<T>(
  opened: Pick<Tables, 'close'>,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await opened.close();
    throw error;
  }
}
