import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { inTime, timeLimit } from '../../runtime/index.ts';
import { type Key, Lease, type Operation, type Store, StoreError } from '../../store/index.ts';

/** So long that pauses of the log and of a process do not end it. */
const ttlMs = 30_000;
/** Before it ends by the clock of the log, it is no longer taken for held. */
const marginMs = 5000;
const renewMs = 10_000;
const releaseLimitMs = 2000;
const leaseKey: Key = ['leases', 'duties'];

export interface DutiesOptions {
  readonly store: Store;
  /** Name of this member. */
  readonly member: string;
  /** Whether a write would be refused now, because too few members are alive. */
  readonly refusesWrites: () => boolean;
  readonly now: () => number;
  readonly log: Logger;
  /** Between two looks at a lease that another member holds. Default: 5,000. */
  readonly lookMs?: number;
}

/**
 * What one member of a cluster at a time does for all: the schedule, rotation by age, and the
 * removal of expired tokens. The member that holds the lease does it; when it is gone, another one
 * takes over.
 */
export class Duties {
  readonly #options: DutiesOptions;
  readonly #ending = new AbortController();
  readonly #listeners = new Set<() => void>();
  readonly #running: Promise<void>;
  #lease: Lease | undefined;
  /** By `performance.now()`. */
  #renewedAt = Number.NEGATIVE_INFINITY;

  constructor(options: DutiesOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  /** Whether this member does what one of them does. */
  get isHeld(): boolean {
    return this.#lease !== undefined && performance.now() - this.#renewedAt < ttlMs - marginMs;
  }

  /** Calls the listener each time that this member begins to do it. */
  onHeld(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /**
   * Writes if this member does it still.
   * @throws StoreError ERR_REVISION where another one does by now; nothing was written
   */
  async write(operations: readonly Operation[]): Promise<void> {
    if (this.#lease === undefined) {
      throw new StoreError('ERR_REVISION', 'another member of the cluster does this');
    }
    // protection: duties-of-others
    await this.#lease.write(operations);
  }

  /** Lets another member take over at once. */
  async close(): Promise<void> {
    this.#ending.abort();
    await this.#running;
    const lease = this.#lease;
    this.#lease = undefined;
    if (lease === undefined || this.#options.refusesWrites()) return;
    const limit = timeLimit(releaseLimitMs);
    await inTime(
      lease.release().catch(() => {}),
      limit.signal,
    ).finally(limit.clear);
  }

  async #run(): Promise<void> {
    const { log, lookMs = 5000 } = this.#options;
    const { signal } = this.#ending;
    while (!signal.aborted) {
      try {
        if (this.#lease === undefined) await this.#take();
        else await this.#renew(this.#lease);
      } catch (error) {
        // Refused or not confirmed, for as long as too few members are alive: tried again.
        if (!(error instanceof StoreError)) log.error({ err: error }, 'lease of duties');
      }
      const pauseMs = this.#lease === undefined ? lookMs : renewMs;
      await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {});
    }
  }

  async #take(): Promise<void> {
    const { store, member, now, log, refusesWrites } = this.#options;
    const entry = await store.get(leaseKey);
    if (refusesWrites()) return;
    if (entry !== undefined) {
      if (Buffer.from(entry.value).toString() !== member) return;
      // A process before this one was the member, and is no longer.
      await store.write([{ op: 'delete', key: leaseKey, ifRevision: entry.revision }]);
    }
    const beganAt = performance.now();
    this.#lease = await Lease.acquire(store, { key: leaseKey, holder: member, ttlMs, now });
    this.#renewedAt = beganAt;
    log.info('this member does what one of the cluster does');
    for (const listener of this.#listeners) listener();
  }

  async #renew(lease: Lease): Promise<void> {
    const beganAt = performance.now();
    try {
      await lease.renew();
      this.#renewedAt = beganAt;
    } catch (error) {
      const isLost = error instanceof StoreError && error.code === 'ERR_REVISION';
      if (isLost || !this.isHeld) this.#lease = undefined;
      throw error;
    }
  }
}
