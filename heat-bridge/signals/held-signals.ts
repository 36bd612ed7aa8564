/**
 * Signals whose handle is not registered yet, because a machine may boot before its stack is
 * registered. They stay in the outbox until the handle is registered or they expire.
 */

import type { Logger } from 'pino';
import type { ExtensionHost } from '#master';
import { KeyedMutex } from '#runtime';
import { type HandleInfo, type HandleRegistry, isForGroups, signalRefusalOf } from './handles.ts';
import type { Outbox, PendingSignal } from './outbox.ts';
import type { OutboxRecord } from './outbox-records.ts';
import type { Signal } from './signal.ts';
import { refusalTexts, type SignalReporter } from './signal-reporter.ts';

/** Looks up the keys of minions. */
export type MinionKeys = Pick<ExtensionHost['admission'], 'keyOf'>;

export interface HeldSignalsOptions {
  readonly handles: Pick<HandleRegistry, 'findFor'>;
  readonly outbox: Outbox;
  /** How long one is held, milliseconds. */
  readonly ttlMs: number;
  readonly admission: MinionKeys;
  /** Whether this master, and no other member of its cluster, gives up what is held for too long. */
  readonly isActive: () => boolean;
  readonly now: () => number;
  readonly log: Logger;
  readonly reports: Pick<SignalReporter, 'givenUp'>;
  /** Told of each whose time is over; must not throw. */
  readonly onExpired: (record: OutboxRecord, reason: string) => void;
}

/** Timers of Node.js take no longer delay. */
const maxTimerMs = 2_147_483_647;

/** Before a store that failed is asked again, or another member is to have given up what is over. */
const storeRetryMs = 1_000;

/** The signals of the outbox that have no handle. */
export class HeldSignals {
  readonly #options: HeldSignalsOptions;
  /** By minion; those of one in the order of acceptance. */
  readonly #held = new Map<string, Set<PendingSignal>>();
  /** By age. */
  readonly #queue = new Set<PendingSignal>();
  /** What is done with those of one minion. */
  readonly #turns = new KeyedMutex();
  readonly #work = new Set<Promise<void>>();
  /** Ids of signals whose data may follow. */
  readonly #delayed = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: HeldSignalsOptions) {
    this.#options = options;
  }

  /** Holds a record of the outbox from its acceptance on. */
  add(pending: PendingSignal): void {
    const { minion, isWritten } = pending;
    const others = this.#held.get(minion);
    if (others === undefined) this.#held.set(minion, new Set([pending]));
    else others.add(pending);
    this.#queue.add(pending);
    void isWritten.then((wasWritten) => wasWritten || this.forget(pending));
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
    const named = isForGroups(handle) ? [...this.#held.keys()] : minions;
    const waiting = named.filter((minion) => this.has(alias, minion));
    await Promise.all(waiting.map((minion) => this.release(alias, minion)));
  }

  /**
   * Gives those of a minion to the handle of an alias, if it is there; durable when it resolves.
   * @param isForced - whether data that may follow is no longer waited for
   */
  async release(alias: string, minion: string, isForced = false): Promise<void> {
    await this.#turns.run(minion, async () => {
      for (const pending of this.#of(alias, minion)) {
        if (isForced) this.#delayed.delete(pending.id);
        if (!this.#delayed.has(pending.id)) await this.#settle(pending);
      }
    });
  }

  /**
   * Delays a signal whose data may follow.
   * @param minion - its sender
   * @param data - resolves to the signal of the data, or to `undefined` if none followed; never
   * rejects
   */
  delay(id: string, minion: string, data: Promise<Signal | undefined>): void {
    this.#delayed.add(id);
    const work = data
      .then((signal) => this.#turns.run(minion, () => this.#complete(id, minion, signal)))
      .catch((error: unknown) => {
        this.#options.log.error({ err: error }, 'signal waits for data that has come');
      })
      .finally(() => this.#work.delete(work));
    this.#work.add(work);
  }

  async #complete(id: string, minion: string, signal: Signal | undefined): Promise<void> {
    if (!this.#delayed.delete(id)) return;
    const pending = [...(this.#held.get(minion) ?? [])].find((it) => it.id === id);
    if (pending === undefined) return;
    if (signal !== undefined) await this.#rewrite(pending, signal);
    await this.#settle(pending);
  }

  async #rewrite(pending: PendingSignal, signal: Signal): Promise<void> {
    const { outbox } = this.#options;
    const record = await outbox.read(pending);
    if (record === undefined || record.handle !== undefined) return;
    const { isEmpty: _isEmpty, ...rest } = record;
    await outbox.rewrite(pending, { ...rest, signal });
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

  #of(alias: string, minion: string): PendingSignal[] {
    return [...(this.#held.get(minion) ?? [])].filter((pending) => pending.alias === alias);
  }

  /** Delivers one whose handle is there, and gives one up whose time is over. */
  async #settle(pending: PendingSignal): Promise<void> {
    const { handles, outbox, now, ttlMs, admission } = this.#options;
    if (!(await pending.isWritten)) return;
    const record = await outbox.read(pending);
    if (record === undefined || record.handle !== undefined) return this.forget(pending);
    const { alias, minion, member, heldKey } = record;
    const handle = handles.findFor(alias, minion);
    if (handle === undefined) {
      if (now() < pending.acceptedAt + ttlMs) return;
      const reason = `no handle was registered for it within ${ttlMs / 1000} s`;
      if (await this.#giveUp(pending, reason)) this.#options.onExpired(record, reason);
      return;
    }
    // Another machine under this id is not the one that signalled.
    if (admission.keyOf(minion)?.fingerprint !== heldKey) {
      await this.#giveUp(pending, 'the minion has another key now');
      return;
    }
    const refusal = signalRefusalOf(handle, member, now());
    if (refusal !== undefined) {
      await this.#giveUp(pending, refusalTexts[refusal]);
      return;
    }
    this.forget(pending);
    const quota = await outbox.assign(pending, record, handle).catch((error: unknown) => {
      this.add(pending);
      throw error;
    });
    if (quota !== undefined) await this.#giveUp(pending, refusalTexts[quota]);
  }

  /** @returns whether it was this master that did */
  async #giveUp(pending: PendingSignal, reason: string): Promise<boolean> {
    const { outbox, reports } = this.#options;
    const record = await outbox.read(pending);
    const isHeld = record !== undefined && record.handle === undefined;
    const isOver = isHeld && (await outbox.moveIfThere(pending, record, reason));
    if (isOver) reports.givenUp(record, undefined, reason);
    this.forget(pending);
    return isOver;
  }

  /** It has a handle, or is over. */
  forget(pending: PendingSignal): void {
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
      Math.min(delay, maxTimerMs),
    );
    this.#timer.unref();
  }

  /** @returns milliseconds before the next look */
  async #expire(): Promise<number> {
    const { now, ttlMs, log, isActive } = this.#options;
    if (!isActive()) return storeRetryMs;
    try {
      for (const { alias, minion, acceptedAt } of [...this.#queue]) {
        if (now() < acceptedAt + ttlMs) break;
        await this.release(alias, minion);
      }
      return this.#delayed.size === 0 ? 0 : storeRetryMs;
    } catch (error) {
      log.error({ err: error }, 'held signals that are over are still in the outbox');
      return storeRetryMs;
    }
  }
}
