import { FairSlots, type WorkBudget } from '#runtime';
import type { Entry, Key, Operation, Store } from '#store';
import { saltLimits } from '../limits.ts';

/**
 * Yields the entries below a key in order. Lets other work run after each page.
 * @param page - number of entries per page
 * @param budget - work budget of the request
 */
export async function* listInTurns(
  store: Pick<Store, 'list'>,
  prefix: Key,
  page: number,
  budget: WorkBudget,
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
    await budget.giveWay();
  }
}

/** Entries of the store with an index in memory. The index is built at the first use. */
export class IndexedEntries<Index> {
  readonly #store: Store;
  readonly #readIndex: (store: Store) => Promise<Index>;
  readonly #slots = new FairSlots(saltLimits.storedValues);
  #index: Index | undefined;

  constructor(store: Store, readIndex: (store: Store) => Promise<Index>) {
    this.#store = store;
    this.#readIndex = readIndex;
  }

  /**
   * Runs tasks one after the other. Owners take turns. A task may change entries, and must update
   * the index after each write.
   * @param owner - owner of the task, as `ownerOfValues` returns it
   */
  run<T>(owner: string, work: (index: Index) => Promise<T>): Promise<T> {
    return this.#slots.run(owner, async () => {
      this.#index ??= await this.#readIndex(this.#store);
      return work(this.#index);
    });
  }

  /** Writes the operations. They are durable when the promise resolves. */
  async write(steps: readonly Operation[]): Promise<void> {
    if (steps.length === 0) return;
    try {
      await this.#store.write(steps);
    } catch (error) {
      // The write may have succeeded although it failed with an error, so the index must be built
      // again.
      this.#index = undefined;
      throw error;
    }
  }
}
