import { createBoundedMap } from './bounded-map.ts';

/** Answers from elsewhere, each of which holds for a while; bounded. */

export interface RecentAnswersOptions {
  /** How long an answer holds from when it was asked for, milliseconds. */
  readonly maxAgeMs: number;
  /** Answers that are remembered; the oldest goes first. */
  readonly maxAnswers: number;
  /** Milliseconds of a clock that only goes forward. */
  readonly monotonic: () => number;
}

interface Held<T> {
  readonly at: number;
  readonly answer: Promise<T>;
}

/** The latest answers by key. Of each key one question is asked at a time. */
export class RecentAnswers<T> {
  readonly #options: RecentAnswersOptions;
  readonly #held;

  constructor(options: RecentAnswersOptions) {
    this.#options = options;
    this.#held = createBoundedMap<string, Held<T>>(options.maxAnswers);
  }

  /** What was just found out. */
  note(key: string, answer: T): void {
    this.#remember(key, Promise.resolve(answer));
  }

  /** The answer, asked for anew where it is too old. A failure is not kept. */
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

  /** Forgets all. */
  clear(): void {
    this.#held.clear();
  }

  #remember(key: string, answer: Promise<T>): Held<T> {
    const held = { at: this.#options.monotonic(), answer };
    this.#held.set(key, held);
    return held;
  }
}
