/**
 * Ordered maps of bytes that {@link TableStore} needs. Implementations use LMDB or a sorted array.
 * Neither the caller nor the implementation may change a buffer after passing it.
 */

/** A row of a {@link Table}. */
export interface Row {
  readonly key: Buffer;
  readonly value: Buffer;
}

/** Selection of rows in a {@link Table}. */
export interface RowRange {
  /** First key, inclusive. */
  readonly from: Buffer;
  /** Key at which the range ends. A row with this key is not included. */
  readonly to: Buffer;
  /** Maximum number of rows. Default: no limit. */
  readonly limit?: number;
  /**
   * Total size of the returned values, in bytes, at which reading stops. The result includes the
   * row that reaches this size. Default: no limit.
   */
  readonly maxBytes?: number;
  /** Whether to read from the last row to the first. Default: `false`. */
  readonly reverse?: boolean;
}

/** Rows ordered by the bytes of their keys. */
export interface Table {
  get(key: Buffer): Buffer | undefined;
  /** Stores a row. Call it only inside {@link Tables.transaction}. */
  put(key: Buffer, value: Buffer): void;
  /** Deletes a row. Call it only inside {@link Tables.transaction}. */
  remove(key: Buffer): void;
  range(range: RowRange): Row[];
  /** Returns the keys of the rows, without reading the values. */
  keys(range: KeyRange): Buffer[];
}

export type KeyRange = Pick<RowRange, 'from' | 'to' | 'limit'>;

/** The tables of a store. */
export interface RowTables {
  /** Table of the entries. The key of a row is the encoded key of the entry. */
  readonly entries: Table;
  /** Expiry index: keys are the expiry time followed by the encoded key, and values are empty. */
  readonly expiries: Table;
  /**
   * Records of streams. The key consists of the encoded stream name and the sequence number of the
   * record.
   */
  readonly records: Table;
  /** Metadata of the store. */
  readonly meta: Table;
}

/** The tables of a store, with transactions. */
export interface Tables extends RowTables {
  /**
   * Runs `work` in a transaction. Transactions run one at a time, in the order of the calls. The
   * promise resolves with the result of `work` once the changes are durable. Promises resolve in
   * the order of the calls. If `work` throws, it must not have written anything, and the promise
   * rejects with the error.
   * @throws StoreError ERR_STORE_UNAVAILABLE
   */
  transaction<T>(work: () => T): Promise<T>;
  close(): Promise<void>;
}
