import { StoreError } from './errors.ts';

/** A write that waits for a transaction. A class, because closures for each write cost more. */
class PendingWrite<T> {
  readonly #work: () => T;
  readonly #resolve: (result: T) => void;
  readonly #reject: (error: unknown) => void;
  #outcome: { readonly result: T } | { readonly error: StoreError } | undefined;

  constructor(work: () => T, resolve: (result: T) => void, reject: (error: unknown) => void) {
    this.#work = work;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /** Performs the write. If it throws a StoreError, only this write fails, not the transaction. */
  run(): void {
    try {
      this.#outcome = { result: this.#work() };
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      this.#outcome = { error };
    }
  }

  /** Settles the promise of the write, which is durable now. */
  done(): void {
    if (this.#outcome === undefined) return;
    if ('error' in this.#outcome) this.#reject(this.#outcome.error);
    else this.#resolve(this.#outcome.result);
  }

  failed(error: unknown): void {
    this.#reject(error);
  }
}

/**
 * Groups waiting writes into one transaction. All writes requested before the engine starts the
 * transaction share its commit and its synchronisation with the disk.
 */
export class GroupCommit {
  readonly #transaction: (work: () => void) => Promise<unknown>;
  readonly #toError: (cause: unknown) => Promise<StoreError>;
  #waiting: Pick<PendingWrite<unknown>, 'run' | 'done' | 'failed'>[] = [];

  /**
   * @param transaction runs the work in one transaction and rolls it back if it throws
   * @param toError returns the error for the writes of a failed transaction
   */
  constructor(
    transaction: (work: () => void) => Promise<unknown>,
    toError: (cause: unknown) => Promise<StoreError>,
  ) {
    this.#transaction = transaction;
    this.#toError = toError;
  }

  /**
   * Runs a write in the next transaction.
   * @param work must not have written anything if it throws a StoreError
   * @throws StoreError that of the work, or that of a failed transaction
   */
  run<T>(work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push(new PendingWrite(work, resolve, reject));
      if (this.#waiting.length === 1) void this.#commit();
    });
  }

  async #commit(): Promise<void> {
    let group = this.#waiting;
    try {
      await this.#transaction(() => {
        group = this.#waiting;
        this.#waiting = [];
        for (const one of group) one.run();
      });
    } catch (cause) {
      // The engine failed before it started a transaction.
      if (group === this.#waiting) this.#waiting = [];
      const error = await this.#toError(cause);
      for (const one of group) one.failed(error);
      return;
    }
    for (const one of group) one.done();
  }
}
