import { StoreError } from './errors.ts';

/** Something to be written, and whom to tell. */
class Waiting<T> {
  readonly #work: () => T;
  readonly #resolve: (result: T) => void;
  readonly #reject: (error: unknown) => void;
  #outcome: { readonly result: T } | { readonly error: StoreError } | undefined;

  constructor(work: () => T, resolve: (result: T) => void, reject: (error: unknown) => void) {
    this.#work = work;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  /** A condition that does not hold is this one's own business: no other one fails by it. */
  run(): void {
    try {
      this.#outcome = { result: this.#work() };
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      this.#outcome = { error };
    }
  }

  /** What was written is durable. */
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
 * Writes together what waits for a transaction: whatever is asked for until the engine gives one
 * shares it, its commit and its synchronisation with the disk.
 */
export class GroupCommit {
  readonly #transaction: (work: () => void) => Promise<unknown>;
  readonly #toError: (cause: unknown) => Promise<StoreError>;
  #waiting: Pick<Waiting<unknown>, 'run' | 'done' | 'failed'>[] = [];

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
      this.#waiting.push(new Waiting(work, resolve, reject));
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
