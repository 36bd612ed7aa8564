/**
 * Signals whose handle is not registered yet: a machine that boots may be quicker than whoever makes
 * its stack. They lie in the outbox until the handle is there, or their time is over.
 */
import type { Logger } from 'pino';
import { KeyedMutex } from '../../runtime/index.ts';
import { type HandleInfo, refusalBy } from './handle.ts';
import type { Handles } from './handles.ts';
import type { Outbox, Pending } from './outbox.ts';
import type { OutboxRecord } from './outbox-record.ts';
import { refusalTexts } from './reports.ts';

/** What {@link HeldSignals} needs. */
export interface HeldSignalsOptions {
  readonly handles: Pick<Handles, 'findFor'>;
  readonly outbox: Outbox;
  /** How long one is held, milliseconds. */
  readonly ttlMs: number;
  /** Fingerprint of the key that a minion has. */
  readonly keyOf: (minion: string) => string | undefined;
  readonly now: () => number;
  readonly log: Logger;
  /** Told of each that is given up; must not throw. */
  readonly onGivenUp: (record: OutboxRecord, reason: string) => void;
  /** Told of each whose time is over; must not throw. */
  readonly onExpired: (record: OutboxRecord, reason: string) => void;
}

/** Timers of Node.js take no longer delay. */
const longestDelayMs = 2_147_483_647;

/** Before a store that failed is asked again. */
const retryMs = 1_000;

/** The signals of the outbox that have no handle. */
export class HeldSignals {
  readonly #options: HeldSignalsOptions;
  /** By minion; those of one in the order of acceptance. */
  readonly #held = new Map<string, Set<Pending>>();
  /** By age. */
  readonly #queue = new Set<Pending>();
  /** What is done with those of one minion. */
  readonly #turns = new KeyedMutex();
  readonly #work = new Set<Promise<void>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: HeldSignalsOptions) {
    this.#options = options;
  }

  /** Holds a record of the outbox from its acceptance on. */
  add(pending: Pending): void {
    const { minion, isWritten } = pending;
    const others = this.#held.get(minion);
    if (others === undefined) this.#held.set(minion, new Set([pending]));
    else others.add(pending);
    this.#queue.add(pending);
    void isWritten.then((wasWritten) => wasWritten || this.#forget(pending));
    this.#schedule();
  }

  /** Whether some of a minion are held for an alias. */
  has(alias: string, minion: string): boolean {
    return this.#of(alias, minion).length > 0;
  }

  /** Gives those that a process before this one held to the handles that there are. */
  async start(): Promise<void> {
    const { handles } = this.#options;
    for (const { alias, minion } of [...this.#queue]) {
      if (handles.findFor(alias, minion) !== undefined) await this.release(alias, minion);
    }
  }

  /** Gives those of some minions to the handle of an alias; durable when it resolves. */
  async releaseAll(handle: HandleInfo): Promise<void> {
    const { alias, minions } = handle;
    const waiting = minions.filter((minion) => this.has(alias, minion));
    await Promise.all(waiting.map((minion) => this.release(alias, minion)));
  }

  /** Gives those of a minion to the handle of an alias, if it is there; durable when it resolves. */
  async release(alias: string, minion: string): Promise<void> {
    await this.#turns.run(minion, async () => {
      for (const pending of this.#of(alias, minion)) await this.#settle(pending);
    });
  }

  /** Gives up those of a minion that is no more; durable when it resolves. */
  async dismiss(minion: string): Promise<void> {
    await this.#turns.run(minion, async () => {
      for (const pending of [...(this.#held.get(minion) ?? [])]) {
        await this.#giveUp(pending, 'the minion was retired');
      }
    });
  }

  /** Holds no longer in this process; what is in the outbox stays there. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#queue.clear();
    await Promise.all(this.#work);
  }

  #of(alias: string, minion: string): Pending[] {
    return [...(this.#held.get(minion) ?? [])].filter((pending) => pending.alias === alias);
  }

  /** Delivers one whose handle is there, and gives one up whose time is over. */
  async #settle(pending: Pending): Promise<void> {
    const { handles, outbox, now, ttlMs, keyOf } = this.#options;
    if (!(await pending.isWritten)) return;
    const record = await outbox.read(pending);
    if (record === undefined) return this.#forget(pending);
    const { alias, minion, member, heldKey } = record;
    const handle = handles.findFor(alias, minion);
    if (handle === undefined) {
      if (now() < pending.acceptedAt + ttlMs) return;
      const reason = `no handle was registered for it within ${ttlMs / 1000} s`;
      await this.#giveUp(pending, reason);
      return this.#options.onExpired(record, reason);
    }
    // Another machine under this id is not the one that signalled.
    // protection: held-for-one-key
    if (keyOf(minion) !== heldKey) return this.#giveUp(pending, 'the minion has another key now');
    const refusal = refusalBy(handle, member, now());
    if (refusal !== undefined) return this.#giveUp(pending, refusalTexts[refusal]);
    this.#forget(pending);
    const quota = await outbox.assign(pending, record, handle).catch((error: unknown) => {
      this.add(pending);
      throw error;
    });
    if (quota !== undefined) await this.#giveUp(pending, refusalTexts[quota]);
  }

  async #giveUp(pending: Pending, reason: string): Promise<void> {
    const { outbox, onGivenUp } = this.#options;
    const record = await outbox.read(pending);
    if (record !== undefined) {
      await outbox.bury(pending, record, reason);
      onGivenUp(record, reason);
    }
    this.#forget(pending);
  }

  #forget(pending: Pending): void {
    this.#queue.delete(pending);
    const own = this.#held.get(pending.minion);
    own?.delete(pending);
    if (own?.size === 0) this.#held.delete(pending.minion);
  }

  /** One timer, for the oldest. */
  #schedule(shortestMs = 0): void {
    const [oldest] = this.#queue;
    if (this.#timer !== undefined || oldest === undefined) return;
    const { now, ttlMs } = this.#options;
    const delay = Math.max(shortestMs, oldest.acceptedAt + ttlMs - now());
    this.#timer = setTimeout(
      () => {
        const work = this.#expire().then((shortest) => {
          this.#work.delete(work);
          this.#timer = undefined;
          this.#schedule(shortest);
        });
        this.#work.add(work);
      },
      Math.min(delay, longestDelayMs),
    );
    this.#timer.unref();
  }

  /** @returns milliseconds before the next look */
  async #expire(): Promise<number> {
    const { now, ttlMs, log } = this.#options;
    try {
      for (const { alias, minion, acceptedAt } of [...this.#queue]) {
        if (now() < acceptedAt + ttlMs) break;
        await this.release(alias, minion);
      }
      return 0;
    } catch (error) {
      log.error({ err: error }, 'held signals that are over are still in the outbox');
      return retryMs;
    }
  }
}
