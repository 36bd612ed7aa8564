import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { inMilliseconds } from '#runtime';
import { type Key, type Operation, type Store, StoreError } from '#store';
import { Lease } from './lease.ts';

/** So long that pauses of the log and of a process do not end it. */
const ttlMs = 30_000;
/** Before it ends by the clock of the log, it is no longer taken for held. */
const marginMs = 5000;
const heldMs = ttlMs - marginMs;
const renewMs = 10_000;
const releaseLimitMs = 2000;
/** Where the lease is kept. */
export const leaseKey: Key = ['leases', 'duties'];

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

/** From taking the lease until it is lost. */
interface Term {
  readonly lease: Lease;
  /** By `performance.now()`. */
  renewedAt: number;
  readonly ending: AbortController;
  /** Ends the term where the lease is not renewed in time. */
  timer: NodeJS.Timeout | undefined;
}

/** Told when this member begins to do what one of them does; the signal fires when it must stop. */
type HeldListener = (ended: AbortSignal) => void;

/**
 * What one member of a cluster at a time does for all: the schedule, rotation by age, the removal of
 * expired tokens, the delivery of signals. The member that holds the lease does it; when it is gone,
 * another one takes over.
 */
export class Duties {
  readonly #options: DutiesOptions;
  readonly #ending = new AbortController();
  readonly #listeners = new Set<HeldListener>();
  readonly #running: Promise<void>;
  #isPaused = false;
  #term: Term | undefined;
  /** Ends a pause early. */
  #wake = new AbortController();

  constructor(options: DutiesOptions) {
    this.#options = options;
    this.#running = this.#run();
  }

  /** Whether this member does what one of them does. */
  get isHeld(): boolean {
    const term = this.#term;
    // A process that was stopped for a while has missed its timers.
    return term !== undefined && performance.now() - term.renewedAt < heldMs;
  }

  /** Calls the listener each time that this member begins to do it; at once where it does it now. */
  onHeld(listener: HeldListener): void {
    this.#listeners.add(listener);
    if (this.#term !== undefined) listener(this.#term.ending.signal);
  }

  /** Looks now whether the lease is free. */
  look(): void {
    this.#wake.abort();
  }

  /**
   * Writes if this member does it still.
   * @throws StoreError ERR_REVISION where another one does by now; nothing was written
   */
  async write(operations: readonly Operation[]): Promise<void> {
    if (this.#term === undefined) {
      throw new StoreError('ERR_REVISION', 'another member of the cluster does this');
    }
    try {
      await this.#term.lease.write(operations);
    } catch (error) {
      // The lease may be lost.
      if (error instanceof StoreError && error.code === 'ERR_REVISION') this.look();
      throw error;
    }
  }

  /** Lets another member take over at once, and takes over no more until {@link resume}. */
  async handOver(): Promise<void> {
    this.#isPaused = true;
    await this.#release();
  }

  resume(): void {
    this.#isPaused = false;
    this.look();
  }

  /** Lets another member take over at once. */
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
        // Refused or not confirmed, for as long as too few members are alive: tried again.
        if (!(error instanceof StoreError)) log.error({ err: error }, 'lease of duties');
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
      // A process before this one was the member, and is no longer.
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
    log.info('this member does what one of the cluster does');
    for (const listener of this.#listeners) listener(ending.signal);
  }

  async #renew(term: Term): Promise<void> {
    const beganAt = performance.now();
    try {
      await term.lease.renew();
      term.renewedAt = beganAt;
      // One that has ended meanwhile stays so: the lease is taken anew.
      if (this.#term === term) this.#endLater(term);
    } catch (error) {
      if (error instanceof StoreError && error.code === 'ERR_REVISION') this.#end();
      throw error;
    }
  }

  /** What is done under the lease ends before another member can take it. */
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
