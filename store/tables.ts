/**
 * What {@link TableStore} asks of an ordered map of bytes. LMDB is one, a sorted array is
 * another. Buffers given and taken are never changed afterwards by either side.
 */

/** A row of a {@link Table}. */
export interface Row {
  readonly key: Buffer;
  readonly value: Buffer;
}

/** Which rows of a {@link Table}. */
export interface RowRange {
  /** First key, inclusive. */
  readonly from: Buffer;
  /** Last key, exclusive. */
  readonly to: Buffer;
  /** At most so many. Default: all. */
  readonly limit?: number;
  /** From the last to the first. */
  readonly reverse?: boolean;
}

/** Rows in the order of the bytes of their keys. */
export interface Table {
  get(key: Buffer): Buffer | undefined;
  /** Only inside {@link Tables.transaction}. */
  put(key: Buffer, value: Buffer): void;
  /** Only inside {@link Tables.transaction}. */
  remove(key: Buffer): void;
  range(range: RowRange): Row[];
}

/** The tables of a store. */
export interface RowTables {
  /** Encoded key → entry record. */
  readonly entries: Table;
  /** Expiry time and encoded key → nothing. */
  readonly expiries: Table;
  /** Encoded stream name and sequence → stream record. */
  readonly records: Table;
  /** What the store knows of itself. */
  readonly meta: Table;
}

/** The tables of a store, and how they are changed together. */
export interface Tables extends RowTables {
  /**
   * Runs `work` when its turn comes, one after the other in the order of the calls. Resolves with
   * its result when what it wrote is as durable as the tables are; promises resolve in the order
   * of the calls. If `work` throws (which it does before it writes), rejects with that.
   * @throws StoreError ERR_STORE_UNAVAILABLE
   */
  transaction<T>(work: () => T): Promise<T>;
  close(): Promise<void>;
}
