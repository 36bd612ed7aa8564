import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { inMilliseconds } from '#runtime';
import { isConflict, type Key, type Operation, type Store, StoreError } from '#store';
import { Lease } from './lease.ts';

/**
 * Lifetime of the lease without renewal, in milliseconds. The member that has the lease performs
 * the duties of the cluster (see {@link Duties}). The lifetime exceeds the usual pauses of the log
 * and of a process.
 */
const ttlMs = 30_000;
/**
 * Safety margin in milliseconds. A member stops its duties this long before its lease for the
 * duties expires.
 */
const marginMs = 5000;
const heldMs = ttlMs - marginMs;
const renewMs = 10_000;
const releaseLimitMs = 2000;
/**
 * Store key of the lease. The member that has the lease performs the duties of the cluster, see
 * {@link Duties}.
 */
export const leaseKey: Key = ['leases', 'duties'];

export interface DutiesOptions {
  readonly store: Store;
  /** Name of this member. */
  readonly member: string;
  /** Returns whether the store would reject a write now because too few members are running. */
  readonly refusesWrites: () => boolean;
  readonly now: () => number;
  readonly log: Logger;
  /**
   * Interval at which this member checks whether the lease for the cluster-wide tasks is free, in
   * milliseconds. Default: 5,000.
   */
  readonly lookMs?: number;
}

/**
 * Period during which this member has the lease and performs the duties of the cluster, see
 * {@link Duties}.
 */
interface Term {
  readonly lease: Lease;
  /** Time of the last renewal, on the clock of `performance.now()`. */
  renewedAt: number;
  readonly ending: AbortController;
  /** Timer that ends the cluster-wide tasks of this member if the lease is not renewed in time. */
  timer: NodeJS.Timeout | undefined;
}

/**
 * Function that is called when this member acquires the lease and must begin the duties of the
 * cluster, see {@link Duties}. The signal is aborted when the member must stop its duties.
 */
type HeldListener = (ended: AbortSignal) => void;

/**
 * Duties that one member of a cluster performs for all: the schedule, key rotation by age, the
 * removal of expired tokens and the delivery of signals. The member that has the lease for the
 * duties performs them. When this member stops, another member takes over.
 */
export class Duties {
  readonly #options: DutiesOptions;
  readonly #ending = new AbortController();
  readonly #listeners = new Set<HeldListener>();
  readonly #running: Promise<void>;
  #isPaused = false;
  #term: Term | undefined;
  /**
   * Abort controller of the pause between two checks of the lease. Aborting it ends the pause
   * early.
   */
  #wake = new AbortController();

  constructor(options: DutiesOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  /** Whether this member has the lease for the duties and performs them. */
  get isHeld(): boolean {
    const term = this.#term;
    // If the process was suspended, the timer that ends the term has not fired.
    return term !== undefined && performance.now() - term.renewedAt < heldMs;
  }

  /**
   * Calls the listener each time this member acquires the lease. If the member has the lease now,
   * the listener is also called at once.
   */
  onHeld(listener: HeldListener): void {
    this.#listeners.add(listener);
    if (this.#term !== undefined) listener(this.#term.ending.signal);
  }

  /** Checks immediately whether the lease for the duties is free. */
  look(): void {
    this.#wake.abort();
  }

  /**
   * Writes to the store on the condition that this member still has the lease.
   * @throws StoreError ERR_REVISION if another member has the lease. In this case, nothing was
   * written
   */
  async write(operations: readonly Operation[]): Promise<void> {
    if (this.#term === undefined) {
      throw new StoreError('ERR_REVISION', 'another member of the cluster performs this duty');
    }
    try {
      await this.#term.lease.write(operations);
    } catch (error) {
      // The write may have failed because the lease was lost.
      if (isConflict(error)) this.look();
      throw error;
    }
  }

  /** Releases the lease. This member does not acquire it again until {@link resume} is called. */
  async handOver(): Promise<void> {
    this.#isPaused = true;
    await this.#release();
  }

  resume(): void {
    this.#isPaused = false;
    this.look();
  }

  /** Releases the lease and stops. */
  async close(): Promise<void> {
    this.#ending.abort();
    this.look();
    await this.#running;
    await this.#release();
  }

  async #release(): Promise<void> {
    const lease = this.#term?.lease;
    this.#end();
    if (lease === undefined || this.#options.refusesWrites()) return;
    await inMilliseconds(
      lease.release().catch(() => {}),
      releaseLimitMs,
    );
  }

  async #run(): Promise<void> {
    const { log, lookMs = 5000 } = this.#options;
    const { signal } = this.#ending;
    while (!signal.aborted) {
      this.#wake = new AbortController();
      try {
        if (this.#term === undefined && !this.#isPaused) await this.#take();
        else if (this.#term !== undefined) await this.#renew(this.#term);
      } catch (error) {
        // Too few members are running, so the write was rejected or not confirmed. The loop retries
        // it.
        if (!(error instanceof StoreError))
          log.error(
            { err: error },
            'cannot take or renew the lease for the tasks that only one cluster member runs',
          );
      }
      const pauseMs = this.#term === undefined ? lookMs : renewMs;
      const pause = { signal: this.#wake.signal, ref: false };
      await sleep(pauseMs, undefined, pause).catch(() => {});
    }
  }

  async #take(): Promise<void> {
    const { store, member, now, log, refusesWrites } = this.#options;
    const entry = await store.get(leaseKey);
    if (refusesWrites()) return;
    if (entry !== undefined) {
      if (Buffer.from(entry.value).toString() !== member) return;
      // The lease was acquired by an earlier process of this member.
      await store.write([{ op: 'delete', key: leaseKey, ifRevision: entry.revision }]);
    }
    const beganAt = performance.now();
    const lease = await Lease.acquire(store, { key: leaseKey, holder: member, ttlMs, now });
    if (this.#isPaused) {
      await lease.release();
      return;
    }
    const ending = new AbortController();
    setMaxListeners(0, ending.signal);
    this.#term = { lease, renewedAt: beganAt, ending, timer: undefined };
    this.#endLater(this.#term);
    log.info(
      'this member now runs the tasks that only one cluster member runs, such as the schedule',
    );
    for (const listener of this.#listeners) listener(ending.signal);
  }

  async #renew(term: Term): Promise<void> {
    const beganAt = performance.now();
    try {
      await term.lease.renew();
      term.renewedAt = beganAt;
      // If the term has ended during the renewal, the lease is acquired again by the loop.
      if (this.#term === term) this.#endLater(term);
    } catch (error) {
      if (isConflict(error)) this.#end();
      throw error;
    }
  }

  /**
   * Starts a timer that ends the cluster-wide tasks of this member. The timer fires before another
   * member can acquire the lease.
   */
  #endLater(term: Term): void {
    clearTimeout(term.timer);
    const left = heldMs - (performance.now() - term.renewedAt);
    term.timer = setTimeout(() => this.#end(), Math.max(0, left)).unref();
  }

  #end(): void {
    const term = this.#term;
    this.#term = undefined;
    clearTimeout(term?.timer);
    term?.ending.abort();
  }
}
