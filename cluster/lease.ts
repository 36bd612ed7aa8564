import { type Key, type Operation, type Store, StoreError } from '#store';

/** Options of a lease. */
export interface LeaseOptions {
  /** Key of the lease's entry. */
  readonly key: Key;
  /** Name of the holder, readable by other processes. */
  readonly holder: string;
  /** Life of the lease without renewal, in milliseconds. */
  readonly ttlMs: number;
  /** Returns milliseconds since 1970. Default: the system's clock. */
  readonly now?: () => number;
}

/**
 * A lease that one process at a time can hold. The revision of its entry is the fencing token: a
 * write under a lease that another process has acquired since is rejected.
 */
export class Lease {
  readonly #store: Store;
  readonly #options: LeaseOptions;
  #token: number;
  /**
   * End of the previous operation. A renewal changes the token, so operations run one after the
   * other.
   */
  #turn: Promise<unknown> = Promise.resolve();

  /**
   * Acquires a lease that is free or has expired.
   * @throws StoreError ERR_REVISION if another process holds it
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
   * Writes if the lease is still held.
   * @throws StoreError ERR_REVISION if it is not
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
   * Extends the lease by its full life from now on.
   * @throws StoreError ERR_REVISION if it was lost
   */
  async renew(): Promise<void> {
    await this.#next(async () => {
      this.#token = await this.#store.write([leaseEntry(this.#options, this.#token)]);
    });
  }

  /** Releases the lease immediately. Does nothing if it was already lost. */
  async release(): Promise<void> {
    await this.#next(async () => {
      try {
        await this.#store.write([
          { op: 'delete', key: this.#options.key, ifRevision: this.#token },
        ]);
      } catch (error) {
        if (!(error instanceof StoreError && error.code === 'ERR_REVISION')) throw error;
      }
    });
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
