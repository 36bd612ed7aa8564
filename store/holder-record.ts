import type { DirectoryLock, LockHolder } from './directory.ts';
import { StoreError } from './errors.ts';
import { encodeKey } from './key-bytes.ts';
import type { Table, Tables } from './tables.ts';

/** Process that holds a store, with an epoch. Data of an earlier epoch is outdated. */
export interface StoreHolder extends LockHolder {
  /** Epoch, higher than that of every earlier holder, and higher after a restore. */
  readonly epoch: number;
}

const holderKey = encodeKey(['holder']);

/**
 * The record of this process in the store. Each write checks it in its own transaction. So a
 * process that was replaced can no longer write, for whatever reason it was replaced and however
 * late it notices.
 */
export class HolderRecord {
  readonly holder: StoreHolder;
  readonly #meta: Table;
  readonly #own: Buffer;
  /** Record when the store was opened. If the disk was full then, the store still contains it. */
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
   * Checks the record inside a transaction, before it writes anything.
   * @throws StoreError ERR_STORE_FENCED
   */
  assert(): void {
    const found = this.#meta.get(holderKey);
    if (found?.equals(this.#own)) return;
    if (!isSame(found, this.#previous)) {
      const message = `process ${this.holder.pid} has lost the store to a process with epoch ${epochOf(found)}`;
      throw this.#fenced(new StoreError('ERR_STORE_FENCED', message));
    }
    this.#meta.put(holderKey, this.#own);
  }

  /** Calls `onFenced` after the transaction was aborted, because the callback may use the store. */
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
