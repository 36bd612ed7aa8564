/** What a run tells, kept so that whoever comes later has it too. */
import { once } from 'node:events';

/** Updates from the beginning, to any number of readers; the outcome is the last of them. */
export class ToldUpdates<U, O> {
  /** Nobody need wait for it. */
  readonly outcome: Promise<O>;
  readonly #told: U[] = [];
  #change = new AbortController();
  #isOver = false;
  #settle: { resolve(outcome: O): void; reject(error: unknown): void } = {
    resolve: () => {},
    reject: () => {},
  };

  constructor() {
    this.outcome = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    this.outcome.catch(() => {});
  }

  tell(update: U): void {
    this.#told.push(update);
    this.#wake();
  }

  /** @param last - what is told of the outcome */
  end(last: U, outcome: O): void {
    this.#isOver = true;
    this.tell(last);
    this.#settle.resolve(outcome);
  }

  fail(error: unknown): void {
    this.#isOver = true;
    this.#settle.reject(error);
    this.#wake();
  }

  async *updates(): AsyncGenerator<U, void, void> {
    for (let next = 0; ; ) {
      const change = this.#change.signal;
      for (const update of this.#told.slice(next)) {
        next += 1;
        yield update;
      }
      if (next < this.#told.length) continue;
      if (this.#isOver) break;
      if (!change.aborted) await once(change, 'abort');
    }
    // Throws what the run failed of.
    await this.outcome;
  }

  #wake(): void {
    const change = this.#change;
    this.#change = new AbortController();
    change.abort();
  }
}
