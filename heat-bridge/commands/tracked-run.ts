/** A run of a command or a plan as its followers see it, with all its updates. */

import { once } from 'node:events';

/** Updates from the beginning, to any number of readers; the outcome is the last of them. */
class UpdateLog<U, O> {
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

  append(update: U): void {
    this.#told.push(update);
    this.#wake();
  }

  /** @param last - what is told of the outcome */
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
    // Throws what the run failed of.
    await this.outcome;
  }

  /** Of those from a number on, all that are there at a time. */
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

/** What is told last. */
interface OutcomeUpdate<O> {
  readonly type: 'outcome';
  readonly outcome: O;
}

/** A run, and what it told. */
export class TrackedRun<U, O extends { readonly status: string }> {
  readonly id: string;
  /** Name of whoever it is of. */
  readonly owner: string;
  readonly #cancel = new AbortController();
  readonly #told = new UpdateLog<U | OutcomeUpdate<O>, O>();
  #isInterrupted = false;

  constructor(id: string, owner: string) {
    this.id = id;
    this.owner = owner;
  }

  /** Whether it can be gone on with: more may have come since its outcome was told. */
  get isInterrupted(): boolean {
    return this.#isInterrupted;
  }

  /** Fires when somebody wants it to end. */
  get cancelled(): AbortSignal {
    return this.#cancel.signal;
  }

  /** Nobody need wait for it. */
  get outcome(): Promise<O> {
    return this.#told.outcome;
  }

  /** All that is told, from the beginning. */
  updates(): AsyncGenerator<U | OutcomeUpdate<O>, void, void> {
    return this.#told.updates();
  }

  /** The same without what the run failed of, of those from a number on: all that are there at a time. */
  batches(from: number): AsyncGenerator<readonly (U | OutcomeUpdate<O>)[], void, void> {
    return this.#told.batches(from);
  }

  tell(update: U): void {
    this.#told.append(update);
  }

  /** The last thing that is told. */
  end(outcome: O): void {
    this.#isInterrupted = outcome.status === 'interrupted';
    this.#told.end({ type: 'outcome', outcome }, outcome);
  }

  fail(error: unknown): void {
    this.#told.fail(error);
  }

  /** Whether whoever cancelled it wants to have taken back what is done, where that is possible. */
  get undoesOnCancel(): boolean {
    return true;
  }

  cancel(_options?: { readonly undo?: boolean }): void {
    this.#cancel.abort();
  }
}
