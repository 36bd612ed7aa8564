import type { DirectoryLock, LockHolder } from './directory.ts';
import { StoreError } from './errors.ts';
import { encodeKey } from './key-bytes.ts';
import type { Table, Tables } from './tables.ts';

/** The process that has a store, and how many have had it: what was made under another epoch is past. */
export interface StoreHolder extends LockHolder {
  /** Higher than that of every process that had the store before, and than after a restore. */
  readonly epoch: number;
}

const holderKey = encodeKey(['holder']);

/**
 * The record of this process in the store. Each write looks for it in its own transaction, so that
 * a process which was replaced writes nothing more, however that came about and however late it
 * notices.
 */
export class HolderRecord {
  readonly holder: StoreHolder;
  readonly #meta: Table;
  readonly #own: Buffer;
  /** As it was when the store was opened; a disk that was full then has it still. */
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
