/** Run of a command or a plan, with all its updates. */

import { once } from 'node:events';

/** Log of updates, for any number of readers. The outcome is the last update. */
class UpdateLog<U, O> {
  /** Outcome. Its rejection need not be handled. */
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

  append(update: U): void {
    this.#told.push(update);
    this.#wake();
  }

  /**
   * Ends the log.
   * @param last - update with the outcome
   */
  end(last: U, outcome: O): void {
    this.#isOver = true;
    this.append(last);
    this.#settle.resolve(outcome);
  }

  fail(error: unknown): void {
    this.#isOver = true;
    this.#settle.reject(error);
    this.#wake();
  }

  async *updates(): AsyncGenerator<U, void, void> {
    for await (const batch of this.batches(0)) yield* batch;
    // Rethrow the error of the run.
    await this.outcome;
  }

  /** Yields the updates from a number on, in batches of all that are available. */
  async *batches(from: number): AsyncGenerator<readonly U[], void, void> {
    for (let next = from; ; ) {
      const change = this.#change.signal;
      const batch = this.#told.slice(next);
      next += batch.length;
      if (batch.length > 0) yield batch;
      else if (this.#isOver) return;
      else if (!change.aborted) await once(change, 'abort');
    }
  }

  #wake(): void {
    const change = this.#change;
    this.#change = new AbortController();
    change.abort();
  }
}

/** Last update of a run. */
interface OutcomeUpdate<O> {
  readonly type: 'outcome';
  readonly outcome: O;
}

/** Run with its updates. */
export class TrackedRun<U, O extends { readonly status: string }> {
  readonly id: string;
  /** Name of the caller. */
  readonly owner: string;
  readonly #cancel = new AbortController();
  readonly #told = new UpdateLog<U | OutcomeUpdate<O>, O>();
  #isInterrupted = false;

  constructor(id: string, owner: string) {
    this.id = id;
    this.owner = owner;
  }

  /** Whether the run was interrupted and can be continued, so that its outcome is not final. */
  get isInterrupted(): boolean {
    return this.#isInterrupted;
  }

  /** Fires when the run is cancelled. */
  get cancelled(): AbortSignal {
    return this.#cancel.signal;
  }

  /** Outcome. Its rejection need not be handled. */
  get outcome(): Promise<O> {
    return this.#told.outcome;
  }

  /** Yields all updates from the start. */
  updates(): AsyncGenerator<U | OutcomeUpdate<O>, void, void> {
    return this.#told.updates();
  }

  /**
   * Yields the updates from a number on, in batches of all that are available. Does not throw the
   * error of the run.
   */
  batches(from: number): AsyncGenerator<readonly (U | OutcomeUpdate<O>)[], void, void> {
    return this.#told.batches(from);
  }

  tell(update: U): void {
    this.#told.append(update);
  }

  /** Ends the run, with the outcome as its last update. */
  end(outcome: O): void {
    this.#isInterrupted = outcome.status === 'interrupted';
    this.#told.end({ type: 'outcome', outcome }, outcome);
  }

  fail(error: unknown): void {
    this.#told.fail(error);
  }

  /** Whether a cancellation also undoes completed work, if possible. */
  get undoesOnCancel(): boolean {
    return true;
  }

  cancel(_options?: { readonly undo?: boolean }): void {
    this.#cancel.abort();
  }
}
