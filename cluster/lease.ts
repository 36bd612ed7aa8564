import { type Key, type Operation, type Store, tryToWrite } from '#store';

/** Options of a lease. */
export interface LeaseOptions {
  /** Store key of the entry that represents the lease. */
  readonly key: Key;
  /** Name under which this process acquires the lease. Other processes can read the name. */
  readonly holder: string;
  /** Lifetime of the lease without renewal, in milliseconds. */
  readonly ttlMs: number;
  /** Returns milliseconds since 1970. Default: the system's clock. */
  readonly now?: () => number;
}

/**
 * A lease that only one process at a time can have. The revision of its entry serves as fencing
 * token: if another process acquires the lease, later writes of the first process are rejected.
 */
export class Lease {
  readonly #store: Store;
  readonly #options: LeaseOptions;
  #token: number;
  /**
   * Promise that settles when the previous operation on the lease has ended. The operations run one
   * after the other, because each needs the revision that the last renewal wrote.
   */
  #turn: Promise<unknown> = Promise.resolve();

  /**
   * Acquires a lease that is free or has expired.
   * @throws StoreError ERR_REVISION if another process has it
   */
  static async acquire(store: Store, options: LeaseOptions): Promise<Lease> {
    const token = await store.write([leaseEntry(options, 0)]);
    return new Lease(store, options, token);
  }

  private constructor(store: Store, options: LeaseOptions, token: number) {
    this.#store = store;
    this.#options = options;
    this.#token = token;
  }

  /**
   * Writes to the store on the condition that the lease was not lost.
   * @throws StoreError ERR_REVISION if it was lost
   */
  write(operations: readonly Operation[]): Promise<number> {
    return this.#next(() =>
      this.#store.write([
        { op: 'require', key: this.#options.key, ifRevision: this.#token },
        ...operations,
      ]),
    );
  }

  /**
   * Extends the lease by its full lifetime from now on.
   * @throws StoreError ERR_REVISION if it was lost
   */
  async renew(): Promise<void> {
    await this.#next(async () => {
      this.#token = await this.#store.write([leaseEntry(this.#options, this.#token)]);
    });
  }

  /** Releases the lease immediately. Does nothing if the lease was lost before. */
  async release(): Promise<void> {
    await this.#next(() =>
      tryToWrite(this.#store, [{ op: 'delete', key: this.#options.key, ifRevision: this.#token }]),
    );
  }

  async #next<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return await done;
  }
}

function leaseEntry(
  { key, holder, ttlMs, now = Date.now }: LeaseOptions,
  token: number,
): Operation {
  return {
    op: 'put',
    key,
    value: Buffer.from(holder),
    expiresAt: now() + ttlMs,
    ifRevision: token,
  };
}
