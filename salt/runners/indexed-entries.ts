import { setImmediate as nextTurn } from 'node:timers/promises';
import { KeyedMutex } from '#runtime';
import type { Entry, Key, Operation, Store } from '#store';

/**
 * Entries below a key, in their order. The store reads without a pause: here others get a turn of
 * the event loop after each page.
 * @param page entries that are read at once
 */
export async function* listInTurns(
  store: Pick<Store, 'list'>,
  prefix: Key,
  page: number,
): AsyncGenerator<Entry, void, void> {
  for (let after: Key | undefined; ; ) {
    let count = 0;
    const options = { limit: page, ...(after === undefined ? {} : { after }) };
    for await (const entry of store.list(prefix, options)) {
      count += 1;
      after = entry.key;
      yield entry;
    }
    if (count < page) return;
    await nextTurn();
  }
}

/** Entries of the store, with an index of them in memory that is read when it is first needed. */
export class IndexedEntries<Index> {
  readonly #store: Store;
  readonly #readIndex: (store: Store) => Promise<Index>;
  readonly #mutex = new KeyedMutex();
  #index: Index | undefined;

  constructor(store: Store, readIndex: (store: Store) => Promise<Index>) {
    this.#store = store;
    this.#readIndex = readIndex;
  }

  /** Does one piece of work after the other; it changes the index after it has written. */
  run<T>(work: (index: Index) => Promise<T>): Promise<T> {
    return this.#mutex.run('', async () => {
      this.#index ??= await this.#readIndex(this.#store);
      return work(this.#index);
    });
  }

  /** Durable when it resolves. */
  async write(steps: readonly Operation[]): Promise<void> {
    if (steps.length === 0) return;
    try {
      await this.#store.write(steps);
    } catch (error) {
      // It may have been written all the same.
      this.#index = undefined;
      throw error;
    }
  }
}
