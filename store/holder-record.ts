import type { DirectoryLock, LockHolder } from './directory.ts';
import { StoreError } from './errors.ts';
import { encodeKey } from './key-bytes.ts';
import type { Table, Tables } from './tables.ts';

/**
 * Process that has a store open, with an epoch: a number that grows with each process that opens
 * the store.
 */
export interface StoreHolder extends LockHolder {
  /**
   * Epoch of this process. It is higher than the epoch of every process that had the store open
   * before, also after a restore. Data of an earlier epoch is outdated.
   */
  readonly epoch: number;
}

const holderKey = encodeKey(['holder']);

/**
 * Record in the store that identifies this process. Each write checks the record in its own
 * transaction. So a process that was replaced can no longer write, even if it has not noticed the
 * replacement.
 */
export class HolderRecord {
  readonly holder: StoreHolder;
  readonly #meta: Table;
  readonly #own: Buffer;
  /**
   * Record of the process that had the store before. If the disk was full when this process opened
   * the store, the store still contains that record.
   */
  readonly #previous: Buffer | undefined;
  #onFenced: ((error: StoreError) => void) | undefined;

  constructor(
    { meta }: Pick<Tables, 'meta'>,
    { holder, generation }: DirectoryLock,
    onFenced: ((error: StoreError) => void) | undefined,
  ) {
    this.#meta = meta;
    this.#onFenced = onFenced;
    this.#previous = meta.get(holderKey);
    this.holder = { epoch: Math.max(epochOf(this.#previous) + 1, generation), ...holder };
    this.#own = Buffer.from(JSON.stringify(this.holder));
  }

  /**
   * Checks inside a transaction that the record identifies this process. Call it before the first
   * write of the transaction.
   * @throws StoreError ERR_STORE_FENCED
   */
  assert(): void {
    const found = this.#meta.get(holderKey);
    if (found?.equals(this.#own)) return;
    if (!isSame(found, this.#previous)) {
      const message = `a later process (epoch ${epochOf(found)}) has taken over the store from process ${this.holder.pid}`;
      throw this.#fenced(new StoreError('ERR_STORE_FENCED', message));
    }
    this.#meta.put(holderKey, this.#own);
  }

  /**
   * Returns the error for the caller to throw. Also passes the first such error to `onFenced`, but
   * only after the transaction was aborted, because `onFenced` may use the store.
   */
  #fenced(error: StoreError): StoreError {
    const onFenced = this.#onFenced;
    this.#onFenced = undefined;
    if (onFenced !== undefined) setImmediate(onFenced, error);
    return error;
  }
}

function epochOf(record: Buffer | undefined): number {
  return record === undefined ? 0 : JSON.parse(record.toString()).epoch;
}

function isSame(a: Buffer | undefined, b: Buffer | undefined): boolean {
  return a === undefined || b === undefined ? a === b : a.equals(b);
}
