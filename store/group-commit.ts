import { StoreError } from './errors.ts';

/**
 * A write that waits for a transaction. This is a class, because closures for each write would cost
 * more.
 */
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

  /**
   * Performs the write. If it throws a StoreError, only this write fails, and the transaction
   * continues with the other writes.
   */
  run(): void {
    try {
      this.#outcome = { result: this.#work() };
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      this.#outcome = { error };
    }
  }

  /** Settles the promise of the write. Called when the transaction is durable. */
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
 * Groups waiting writes into one transaction. All writes that are requested before the engine
 * starts the transaction share one commit and one synchronisation with the disk.
 */
export class GroupCommit {
  readonly #transaction: (work: () => void) => Promise<unknown>;
  readonly #toError: (cause: unknown) => Promise<StoreError>;
  #waiting: Pick<PendingWrite<unknown>, 'run' | 'done' | 'failed'>[] = [];

  /**
   * Creates a group without waiting writes.
   * @param transaction - runs the work in one transaction, and rolls it back if the work throws
   * @param toError - converts the error of a failed transaction to the error for each write in it
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
   * @param work - function that performs the write. If it throws a StoreError, it must not have
   * written anything before
   * @throws StoreError the error of the work, or of the failed transaction
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
