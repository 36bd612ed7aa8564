import { StoreError } from './errors.ts';

/** Something to be written, and whom to tell. */
interface Waiting {
  /** Does the work; what it throws is its own business, so no other one fails by it. */
  run(): void;
  /** What it wrote is durable. */
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
  #waiting: Waiting[] = [];

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
      this.#waiting.push(waiting(work, resolve, reject));
      if (this.#waiting.length === 1) void this.#commit();
    });
  }

  async #commit(): Promise<void> {
    let group: readonly Waiting[] | undefined;
    const take = (): readonly Waiting[] => {
      group = this.#waiting;
      this.#waiting = [];
      return group;
    };
    try {
      await this.#transaction(() => {
        for (const one of take()) one.run();
      });
    } catch (cause) {
      const failed = group ?? take();
      const error = await this.#toError(cause);
      for (const one of failed) one.failed(error);
      return;
    }
    for (const one of group ?? []) one.done();
  }
}

function waiting<T>(
  work: () => T,
  resolve: (result: T) => void,
  reject: (error: unknown) => void,
): Waiting {
  let settle = (): void => reject(new StoreError('ERR_STORE_UNAVAILABLE', 'the work was not done'));
  return {
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
  };
}
