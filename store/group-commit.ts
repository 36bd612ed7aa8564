import { StoreError } from './errors.ts';

/** A write that waits for a transaction. */
interface PendingWrite {
  /** Writes. Its StoreError is its own: no other write of the transaction fails by it. */
  run(): void;
  /** Settles the promise of the write, which is durable. */
  done(): void;
  failed(error: unknown): void;
}

/**
 * Writes together what waits for a transaction: whatever is asked for until the engine gives one
 * shares it, its commit and its synchronisation with the disk.
 */
export class GroupCommit {
  readonly #transaction: (work: () => void) => Promise<unknown>;
  readonly #toError: (cause: unknown) => Promise<StoreError>;
  #waiting: PendingWrite[] = [];

  /**
   * @param transaction does the work in one transaction; takes it back where it throws
   * @param toError what those are told whose transaction failed
   */
  constructor(
    transaction: (work: () => void) => Promise<unknown>,
    toError: (cause: unknown) => Promise<StoreError>,
  ) {
    this.#transaction = transaction;
    this.#toError = toError;
  }

  /**
   * @param work throws a StoreError before it writes anything, or none
   * @throws StoreError that of the work; that of a transaction which failed
   */
  run<T>(work: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      let settle = (): void => {};
      this.#waiting.push({
        run: () => {
          try {
            const result = work();
            settle = () => resolve(result);
          } catch (error) {
            if (!(error instanceof StoreError)) throw error;
            settle = () => reject(error);
          }
        },
        done: () => settle(),
        failed: reject,
      });
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
      // The engine gave no transaction at all.
      if (group === this.#waiting) this.#waiting = [];
      const error = await this.#toError(cause);
      for (const one of group) one.failed(error);
      return;
    }
    for (const one of group) one.done();
  }
}
