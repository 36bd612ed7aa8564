import { type Key, type Operation, type Store, StoreError } from '#store';

/** How a lease is taken. */
export interface LeaseOptions {
  /** Where the lease is kept. */
  readonly key: Key;
  /** Who takes it; told to whoever finds it taken. */
  readonly holder: string;
  /** How long it lasts without being renewed, milliseconds. */
  readonly ttlMs: number;
  /** Milliseconds since 1970. Default: the system's clock. */
  readonly now?: () => number;
}

/**
 * Something that one process at a time may do. The revision of its entry is the fencing token:
 * a write under a lease that somebody else has taken since changes nothing.
 */
export class Lease {
  readonly #store: Store;
  readonly #options: LeaseOptions;
  #token: number;
  /** Renewing changes the token, so writes under it and renewals come one after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  /**
   * Takes a lease that is free, or has expired.
   * @throws StoreError ERR_REVISION while somebody holds it
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

  /** Writes if the lease is still held. @throws StoreError ERR_REVISION once it is not */
  write(operations: readonly Operation[]): Promise<number> {
    return this.#next(() =>
      this.#store.write([
        { op: 'require', key: this.#options.key, ifRevision: this.#token },
        ...operations,
      ]),
    );
  }

  /** Lets it last for its time from now on. @throws StoreError ERR_REVISION once it is lost */
  async renew(): Promise<void> {
    await this.#next(async () => {
      this.#token = await this.#store.write([leaseEntry(this.#options, this.#token)]);
    });
  }

  /** Makes it free at once; nothing happens where it is lost already. */
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
