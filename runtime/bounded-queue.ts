import type { Limit, LimitValues } from './limits.ts';

/**
 * A bounded queue of items, read with `for await`. If its capacity is exceeded, it ends with an
 * error instead of growing.
 */
export class BoundedQueue<T> implements AsyncIterableIterator<T> {
  readonly #capacity: number;
  readonly #overflow: () => Error;
  #items: T[] = [];
  #wake: (() => void) | undefined;
  readonly #onEnd: () => void;
  #end: 'open' | 'closed' | { readonly error: Error } = 'open';

  /**
   * Creates the queue.
   * @param overflow - creates the error with which the queue ends if it overflows
   * @param onEnd - called once, when the queue accepts no more items
   * @param values - limits of the queue. Only `perOwner` is used: the maximum number of items.
   * Default: `limit`
   */
  constructor(
    limit: Limit,
    overflow: () => Error,
    onEnd: () => void = () => {},
    values: LimitValues = limit,
  ) {
    this.#onEnd = onEnd;
    this.#capacity = values.perOwner ?? Infinity;
    this.#overflow = overflow;
  }

  get isOpen(): boolean {
    return this.#end === 'open';
  }

  /** Number of items that wait to be read. */
  get length(): number {
    return this.#items.length;
  }

  /**
   * Adds an item. If the queue is full, the queue discards all items and ends with the error of
   * `overflow`.
   */
  push(item: T): void {
    if (this.#end !== 'open') return;
    if (this.#items.length >= this.#capacity) {
      this.#items = [];
      this.#end = { error: this.#overflow() };
      this.#onEnd();
    } else {
      this.#items.push(item);
    }
    this.#wake?.();
  }

  /** Ends the queue. The reader still gets the remaining items. */
  close(): void {
    if (this.#end === 'open') {
      this.#end = 'closed';
      this.#onEnd();
    }
    this.#wake?.();
  }

  async next(): Promise<IteratorResult<T>> {
    for (;;) {
      const item = this.#items.shift();
      if (item !== undefined) return { done: false, value: item };
      if (this.#end === 'closed') return { done: true, value: undefined };
      if (this.#end !== 'open') {
        const { error } = this.#end;
        this.#end = 'closed';
        throw error;
      }
      await this.#change();
    }
  }

  /** Yields batches. Each batch contains all items that are waiting at that time. */
  async *batches(): AsyncGenerator<readonly T[], void, void> {
    try {
      for (;;) {
        const items = this.#items;
        if (items.length > 0) {
          this.#items = [];
          yield items;
        } else if (this.#end === 'closed') return;
        else if (this.#end !== 'open') throw this.#end.error;
        else await this.#change();
      }
    } finally {
      this.close();
    }
  }

  async #change(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#wake = undefined;
  }

  async return(): Promise<IteratorResult<T>> {
    this.#items = [];
    this.close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<T> {
    return this;
  }
}
