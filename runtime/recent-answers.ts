import { createBoundedMap } from './bounded-map.ts';
import type { Limit } from './limits.ts';

/** Options of {@link RecentAnswers}. */

export interface RecentAnswersOptions {
  /** Validity period of an answer, in milliseconds. It begins when the answer is requested. */
  readonly maxAgeMs: number;
  /** Maximum number of cached answers. The least recently used is evicted first. */
  readonly limit: Limit;
  /** Returns the milliseconds of a monotonic clock. */
  readonly monotonic: () => number;
}

interface Held<T> {
  readonly at: number;
  readonly answer: Promise<T>;
}

/** A bounded cache of answers by key. At most one request per key is in progress. */
export class RecentAnswers<T> {
  readonly #options: RecentAnswersOptions;
  readonly #held;

  constructor(options: RecentAnswersOptions) {
    this.#options = options;
    this.#held = createBoundedMap<string, Held<T>>(options.limit);
  }

  /** Caches an answer that the caller already has, so that it need not be requested. */
  note(key: string, answer: T): void {
    this.#remember(key, Promise.resolve(answer));
  }

  /**
   * Returns the cached answer for a key. If the answer is missing or too old, requests a new answer
   * with `ask`. Failures are not cached.
   */
  async of(key: string, ask: () => Promise<T>): Promise<T> {
    const { maxAgeMs, monotonic } = this.#options;
    const known = this.#held.get(key);
    if (known !== undefined && monotonic() - known.at < maxAgeMs) return known.answer;
    const answer = ask();
    const held = this.#remember(key, answer);
    try {
      return await answer;
    } catch (error) {
      if (this.#held.get(key) === held) this.#held.delete(key);
      throw error;
    }
  }

  /** Removes all answers. */
  clear(): void {
    this.#held.clear();
  }

  #remember(key: string, answer: Promise<T>): Held<T> {
    const held = { at: this.#options.monotonic(), answer };
    this.#held.set(key, held);
    return held;
  }
}
