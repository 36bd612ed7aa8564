/**
 * Held signals: signals that have arrived before a handle for them is registered. A machine can
 * send signals before its stack is registered. The signals stay in the outbox until the handle is
 * registered, or until they expire.
 */

import type { Logger } from 'pino';
import type { ExtensionHost } from '#master';
import { KeyedMutex } from '#runtime';
import { isForGroups } from './handle-groups.ts';
import { type HandleInfo, type HandleRegistry, signalRefusalOf } from './handles.ts';
import type { Outbox, PendingSignal } from './outbox.ts';
import type { OutboxRecord } from './outbox-records.ts';
import type { Signal } from './signal.ts';
import { refusalTexts, type SignalReporter } from './signal-reporter.ts';

/** Lookup of the keys of minions. */
export type MinionKeys = Pick<ExtensionHost['admission'], 'keyOf'>;

export interface HeldSignalsOptions {
  readonly handles: Pick<HandleRegistry, 'findFor'>;
  readonly outbox: Outbox;
  /** Time after which a signal without a handle expires, in milliseconds. */
  readonly ttlMs: number;
  readonly admission: MinionKeys;
  /** Whether this master enrols a machine with this minion id. */
  readonly isEnrolling: (minion: string) => boolean;
  /**
   * Whether this master expires signals without a handle. In a cluster, this is true on one member
   * only.
   */
  readonly isActive: () => boolean;
  readonly now: () => number;
  readonly log: Logger;
  readonly reports: Pick<SignalReporter, 'givenUp'>;
  /** Callback that receives each expired signal. It must not throw. */
  readonly onExpired: (record: OutboxRecord, reason: string) => void;
}

/** Maximum delay of a Node.js timer, in milliseconds. */
const maxTimerMs = 2_147_483_647;

/**
 * Minimum delay before the next check for expired signals, in milliseconds. It applies after a
 * failure of the store, while another member expires held signals, and while signals wait for their
 * data.
 */
const storeRetryMs = 1_000;

/** Held signals: the signals of the outbox that have no handle. */
export class HeldSignals {
  readonly #options: HeldSignalsOptions;
  /** Held signals by minion, in the order in which they were accepted. */
  readonly #held = new Map<string, Set<PendingSignal>>();
  /** All signals that have no handle, the oldest first. */
  readonly #queue = new Set<PendingSignal>();
  /** Runs work on the held signals of a minion one after the other. */
  readonly #turns = new KeyedMutex();
  readonly #work = new Set<Promise<void>>();
  /**
   * Ids of held signals whose event contained no data. Such a signal waits for the return of
   * `salt-call`, which may contain the data.
   */
  readonly #delayed = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: HeldSignalsOptions) {
    this.#options = options;
  }

  /** Adds a signal of the outbox for which no handle is registered. */
  add(pending: PendingSignal): void {
    const { minion, isWritten } = pending;
    const others = this.#held.get(minion);
    if (others === undefined) this.#held.set(minion, new Set([pending]));
    else others.add(pending);
    this.#queue.add(pending);
    void isWritten.then((wasWritten) => wasWritten || this.forget(pending));
    this.#schedule();
  }

  /** Whether there are held signals from this minion for this alias. */
  has(alias: string, minion: string): boolean {
    return this.#of(alias, minion).length > 0;
  }

  /**
   * Handles signals that an earlier process stored while their handle was not registered. If the
   * handle is registered now, assigns the signals to it.
   */
  async start(): Promise<void> {
    const { handles } = this.#options;
    for (const { alias, minion } of [...this.#queue]) {
      if (handles.findFor(alias, minion) !== undefined) await this.release(alias, minion);
    }
  }

  /** Assigns held signals to a new handle. Resolves when the changes are durable. */
  async releaseAll(handle: HandleInfo): Promise<void> {
    const { alias, minions } = handle;
    const named = isForGroups(handle) ? [...this.#held.keys()] : minions;
    const waiting = named.filter((minion) => this.has(alias, minion));
    await Promise.all(waiting.map((minion) => this.release(alias, minion)));
  }

  /**
   * Assigns a minion's held signals for an alias to the handle that is registered under the alias.
   * Without such a handle, the signals stay held. Resolves when the changes are durable.
   * @param isForced - whether to include signals whose data may still arrive
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
   * Delays the assignment of a held signal to a handle until the signal's data arrives.
   * @param minion - sender of the signal
   * @param data - resolves to the signal with its data, or to `undefined` if no data arrived; never
   * rejects
   */
  delay(id: string, minion: string, data: Promise<Signal | undefined>): void {
    this.#delayed.add(id);
    const work = data
      .then((signal) => this.#turns.run(minion, () => this.#complete(id, minion, signal)))
      .catch((error: unknown) => {
        this.#options.log.error(
          { err: error },
          'could not store the data of a signal that waits for its handle; the signal keeps waiting',
        );
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

  /**
   * Moves the held signals of a minion to the dead-letter list. Resolves when the changes are
   * durable.
   */
  async dismiss(minion: string, reason: string): Promise<void> {
    await this.#turns.run(minion, async () => {
      for (const pending of [...(this.#held.get(minion) ?? [])]) {
        await this.#giveUp(pending, reason);
      }
    });
  }

  /** Stops the work on held signals in this process. The signals stay in the outbox. */
  async close(): Promise<void> {
    clearTimeout(this.#timer);
    this.#queue.clear();
    await Promise.all(this.#work);
  }

  #of(alias: string, minion: string): PendingSignal[] {
    return [...(this.#held.get(minion) ?? [])].filter((pending) => pending.alias === alias);
  }

  /**
   * Decides about one held signal. If a handle is registered, assigns the signal to it. If the
   * handle rejects the signal, a quota is exhausted or the key of the minion has changed, moves the
   * signal to the dead-letter list. If no handle is registered, moves the signal to this list only
   * when it has expired.
   */
  async #settle(pending: PendingSignal): Promise<void> {
    const { handles, outbox, now, ttlMs, admission, isEnrolling } = this.#options;
    if (!(await pending.isWritten)) return;
    const record = await outbox.read(pending);
    if (record === undefined || record.handle !== undefined) return this.forget(pending);
    const { alias, minion, member, heldKey } = record;
    const handle = handles.findFor(alias, minion);
    if (handle === undefined) {
      if (now() < pending.acceptedAt + ttlMs) return;
      const reason = `no handle was registered for the signal within ${ttlMs / 1000} s`;
      if (await this.#giveUp(pending, reason)) this.#options.onExpired(record, reason);
      return;
    }
    // If the minion now has another key, another machine sent the signal.
    if (admission.keyOf(minion)?.fingerprint !== heldKey) {
      await this.#giveUp(pending, 'the key of the minion has changed since it sent the signal');
      return;
    }
    // A signal without a key is from a site. The machine that this master enrols did not send it.
    if (heldKey === undefined && isEnrolling(minion)) {
      await this.#giveUp(pending, 'a site sent the signal before the enrolment of the machine');
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

  /**
   * Moves a held signal to the dead-letter list.
   * @returns false if another process has moved or assigned it already
   */
  async #giveUp(pending: PendingSignal, reason: string): Promise<boolean> {
    const { outbox, reports } = this.#options;
    const record = await outbox.read(pending);
    const isHeld = record !== undefined && record.handle === undefined;
    const isOver = isHeld && (await outbox.moveIfThere(pending, record, reason));
    if (isOver) reports.givenUp(record, undefined, reason);
    this.forget(pending);
    return isOver;
  }

  /** Removes a signal that is no longer held. */
  forget(pending: PendingSignal): void {
    this.#queue.delete(pending);
    const own = this.#held.get(pending.minion);
    own?.delete(pending);
    if (own?.size === 0) this.#held.delete(pending.minion);
  }

  /**
   * Starts the timer that expires the oldest held signal, unless the timer is already running.
   * @param shortestMs - minimum delay, in milliseconds
   */
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

  /**
   * Expires signals that have waited too long for a handle.
   * @returns minimum delay before the next check, in milliseconds
   */
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
      log.error(
        { err: error },
        'could not delete expired signals that waited for a handle; retrying',
      );
      return storeRetryMs;
    }
  }
}
