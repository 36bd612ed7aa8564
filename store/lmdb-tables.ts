import { type Database, open, type RootDatabase } from 'lmdb';
import { StoreError } from './errors.ts';
import type { Row, RowRange, Table, Tables } from './tables.ts';

const binary = { keyEncoding: 'binary', encoding: 'binary' } as const;

/**
 * Opens or creates an LMDB environment in a directory. Transactions asked for while one is being
 * synchronised share the next commit.
 * @param readOnly - it must be there, and is not written to. Default false
 * @throws StoreError ERR_STORE_UNAVAILABLE
 */
export function openLmdbTables(directory: string, readOnly = false): Tables {
  try {
    // Without overlapping synchronisation a promise resolves when the data and then the page
    // that points to it are on disk. Measured with 1, 64 and 1,000 writes under way: overlapping
    // and waiting for `flushed` is not reliably faster.
    const environment = open<Buffer, Buffer>({
      path: directory,
      maxDbs: 4,
      overlappingSync: false,
      readOnly,
      ...binary,
    });
    return tablesOf(environment);
  } catch (cause) {
    throw unavailable(`the store in ${directory} could not be opened`, cause);
  }
}

function tablesOf(environment: RootDatabase<Buffer, Buffer>): Tables {
  const table = (name: string): Table => new LmdbTable(environment.openDB({ name, ...binary }));
  return {
    entries: table('entries'),
    expiries: table('expiries'),
    records: table('records'),
    meta: table('meta'),
    transaction: async (work) => {
      try {
        // A child transaction, so that one that throws takes none of its neighbours with it.
        return await environment.childTransaction(work);
      } catch (cause) {
        throw cause instanceof StoreError ? cause : unavailable('a write failed', cause);
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

function unavailable(what: string, cause: unknown): StoreError {
  return new StoreError('ERR_STORE_UNAVAILABLE', what, { cause });
}
