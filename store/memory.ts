import type { Store } from './store.ts';
import { TableStore } from './table-store.ts';
import type { KeyRange, Row, RowRange, Table, Tables } from './tables.ts';

/** Options of {@link createMemoryStore}. */
export interface MemoryStoreOptions {
  /** Clock for expiry, in milliseconds since 1970. Default: `Date.now`. */
  readonly now?: () => number;
}

/** Creates a store in memory, for tests and temporary masters. */
export function createMemoryStore(options: MemoryStoreOptions = {}): Store {
  const tables: Tables = {
    entries: new MemoryTable(),
    expiries: new MemoryTable(),
    records: new MemoryTable(),
    meta: new MemoryTable(),
    transaction: async (work) => work(),
    close: async () => {},
  };
  return new TableStore(tables, options.now ?? Date.now);
}

class MemoryTable implements Table {
  readonly #rows: Row[] = [];

  get(key: Buffer): Buffer | undefined {
    const row = this.#rows[this.#indexOf(key)];
    return row?.key.equals(key) ? Buffer.from(row.value) : undefined;
  }

  put(key: Buffer, value: Buffer): void {
    const index = this.#indexOf(key);
    const isThere = this.#rows[index]?.key.equals(key) ?? false;
    this.#rows.splice(index, isThere ? 1 : 0, { key, value });
  }

  remove(key: Buffer): void {
    const index = this.#indexOf(key);
    if (this.#rows[index]?.key.equals(key)) this.#rows.splice(index, 1);
  }

  range({ from, to, limit, maxBytes = Infinity, reverse }: RowRange): Row[] {
    const first = this.#indexOf(from);
    const end = Math.max(first, this.#indexOf(to));
    const count = Math.min(limit ?? end - first, end - first);
    const rows = reverse
      ? this.#rows.slice(end - count, end).reverse()
      : this.#rows.slice(first, first + count);
    const read: Row[] = [];
    let bytes = 0;
    for (const { key, value } of rows) {
      // Values are copied, so that the caller cannot change the stored bytes.
      read.push({ key, value: Buffer.from(value) });
      bytes += value.length;
      if (bytes >= maxBytes) break;
    }
    return read;
  }

  keys({ from, to, limit = Infinity }: KeyRange): Buffer[] {
    const first = this.#indexOf(from);
    const end = Math.min(this.#indexOf(to), first + limit);
    return this.#rows.slice(first, end).map(({ key }) => key);
  }

  /** Returns the index of the first row whose key is equal to or after `key`. */
  #indexOf(key: Buffer): number {
    let low = 0;
    let high = this.#rows.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const row = this.#rows[middle];
      if (row !== undefined && Buffer.compare(row.key, key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
