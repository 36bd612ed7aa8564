import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { type Database, open, type RootDatabase } from 'lmdb';
import { StoreError, storeUnavailable } from './errors.ts';
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

export interface DiskSpaceGuardOptions {
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
export class DiskSpaceGuard {
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
    throw failure(`the store in ${directory} could not be opened`, cause);
  }
}

function tablesOf(environment: RootDatabase<Buffer, Buffer>, directory: string): LmdbTables {
  const table = (name: string): Table => new LmdbTable(environment.openDB({ name, ...binary }));
  const commits = new GroupCommit(
    // A child transaction, so that a group that throws is taken back.
    (work) => environment.childTransaction(work),
    async (cause) =>
      failure('a write failed', await toStoreError(cause), await isLowOnSpace(directory)),
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
        throw failure('the store could not be copied', cause);
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

function failure(what: string, cause: unknown, hasLittleRoom = false): StoreError {
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
