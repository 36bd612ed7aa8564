/** A run of a command or of a plan. All updates of the run are kept for its readers. */

import { type Budget, memoryOf } from '#runtime';
import type { CommandResult } from './command-request.ts';

/** Log of a run's updates, which any number of readers can read. Its last update is the outcome. */
class UpdateLog<U, O> {
  /**
   * Outcome of the run. If the run fails, this promise rejects. Callers that ignore the promise
   * cause no unhandled rejection.
   */
  outcome: Promise<O>;
  readonly #updates: U[] = [];
  /** Resolved by the next update. `undefined` if no reader waits for it. */
  #change: PromiseWithResolvers<void> | undefined;
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
    this.#updates.push(update);
    this.#wake();
  }

  /**
   * Ends the list of the run's updates.
   * @param last - last update, which contains the outcome
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
    // Hold no copy of the list while the reader handles an update: `shorten` replaces its entries.
    for (let next = 0; ; ) {
      const update = this.#updates[next];
      if (update !== undefined) {
        next += 1;
        yield update;
      } else if (this.#isOver) break;
      else await this.#changed();
    }
    // If the run failed, throw its error.
    await this.outcome;
  }

  /**
   * Yields the updates in batches, without the first `from` updates. Each batch has all updates
   * that are available.
   */
  async *batches(from: number): AsyncGenerator<readonly U[], void, void> {
    for (let next = from; ; ) {
      const batch = this.#updates.slice(next);
      next += batch.length;
      if (batch.length > 0) yield batch;
      else if (this.#isOver) return;
      else await this.#changed();
    }
  }

  /**
   * Replaces the updates and the outcome, also for current readers. Must be called only after this
   * log has ended.
   */
  shorten(update: (update: U) => U, outcome: (outcome: O) => O): void {
    for (const [index, it] of this.#updates.entries()) this.#updates[index] = update(it);
    this.outcome = this.outcome.then(outcome);
    this.outcome.catch(() => {});
  }

  /** Resolves at the next update, or when the run fails. */
  #changed(): Promise<void> {
    this.#change ??= Promise.withResolvers<void>();
    return this.#change.promise;
  }

  #wake(): void {
    this.#change?.resolve();
    this.#change = undefined;
  }
}

/** Last update of a run. */
interface OutcomeUpdate<O> {
  readonly type: 'outcome';
  readonly outcome: O;
}

/**
 * Text that is added to the reason of a minion's result, if the return was removed from the result.
 */
const omittedReason =
  'the return was omitted, because the active runs of the caller hold too many bytes; read it from the job';

/** Returns a result without the return of the minion. */
export function withoutReturn({ return: _, ...result }: CommandResult): CommandResult {
  return result;
}

/** Run of a command or plan, with its updates. */
export abstract class TrackedRun<U, O extends { readonly status: string }> {
  readonly id: string;
  /** Name of the caller. */
  readonly owner: string;
  readonly #cancel = new AbortController();
  readonly #updates = new UpdateLog<U | OutcomeUpdate<O>, O>();
  #isInterrupted = false;
  /**
   * Counts the bytes of the run's returns towards the limit of its owner. `undefined` if this
   * process does not execute the run.
   */
  #budget: Budget | undefined;
  #returnBytes = 0;

  constructor(id: string, owner: string) {
    this.id = id;
    this.owner = owner;
  }

  /** Whether the run was interrupted. It can be continued, so its outcome is not final. */
  get isInterrupted(): boolean {
    return this.#isInterrupted;
  }

  /** Aborted when the run is cancelled. */
  get cancelled(): AbortSignal {
    return this.#cancel.signal;
  }

  /** Outcome of the run. Callers need not handle its rejection. */
  get outcome(): Promise<O> {
    return this.#updates.outcome;
  }

  /** Yields all updates from the start. */
  updates(): AsyncGenerator<U | OutcomeUpdate<O>, void, void> {
    return this.#updates.updates();
  }

  /**
   * Yields the updates in batches, without the first `from` updates. Each batch has all updates
   * that are available. If the run fails, the iteration ends without an error.
   */
  batches(from: number): AsyncGenerator<readonly (U | OutcomeUpdate<O>)[], void, void> {
    return this.#updates.batches(from);
  }

  /** Approximate size of the returns in the run, in bytes. */
  get returnBytes(): number {
    return this.#returnBytes;
  }

  /**
   * Counts the bytes of this run's returns toward a budget of its caller.
   * @returns function that releases these bytes and ends the counting
   */
  limitReturns(budget: Budget): () => void {
    this.#budget = budget;
    return () => {
      this.#budget = undefined;
      budget.release(this.owner, this.#returnBytes);
    };
  }

  /**
   * Adds the size of a minion's return to the caller's budget. Must be called before the result is
   * stored or sent.
   * @returns the given result. If the budget is exceeded, a copy of the result without the minion's
   * return
   */
  admit(result: CommandResult): CommandResult {
    if (result.return === undefined) return result;
    const bytes = memoryOf(result.return);
    if (this.#budget?.tryTake(this.owner, bytes) === false) {
      const reason = [result.reason, omittedReason].filter((it) => it !== undefined).join('; ');
      return { ...withoutReturn(result), reason };
    }
    this.#returnBytes += bytes;
    return result;
  }

  /**
   * Removes the returns from the updates and the outcome of the run, which must have ended. Readers
   * that have not received an update yet receive it without returns.
   */
  dropReturns(): void {
    this.#returnBytes = 0;
    this.#updates.shorten(
      (update) => this.shortenUpdate(update),
      (outcome) => this.shortenOutcome(outcome),
    );
  }

  /** Returns an update without the returns of minions. */
  protected abstract shortenUpdate(update: U | OutcomeUpdate<O>): U | OutcomeUpdate<O>;

  /** Returns an outcome without the returns of minions. */
  protected abstract shortenOutcome(outcome: O): O;

  tell(update: U): void {
    this.#updates.append(update);
  }

  /** Ends the run, with the outcome as its last update. */
  end(outcome: O): void {
    this.#isInterrupted = outcome.status === 'interrupted';
    this.#updates.end({ type: 'outcome', outcome }, outcome);
  }

  fail(error: unknown): void {
    this.#updates.fail(error);
  }

  /** Whether a cancellation also undoes completed steps that can be undone. */
  get undoesOnCancel(): boolean {
    return true;
  }

  cancel(_options?: { readonly undo?: boolean }): void {
    this.#cancel.abort();
  }
}
