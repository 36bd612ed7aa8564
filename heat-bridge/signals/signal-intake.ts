/** Stores signals of minions in the outbox, and holds those without a handle. */

import type { Logger } from 'pino';
import type { ExtensionHost, SignalIntake as TakesSignals, TriggerEvent } from '#master';
import type { WireMap } from '#minion-protocol';
import { KeyedMutex } from '#runtime';
import type { Traces } from '../tracing.ts';
import {
  type HandleInfo,
  type HandleRegistry,
  isForGroups,
  parseSignalTag,
  signalRefusalOf,
} from './handles.ts';
import type { Outbox, PendingSignal } from './outbox.ts';
import type { FullQuota } from './outbox-quotas.ts';
import type { OutboxRecord } from './outbox-records.ts';
import { parseSignal, type SignalProblem } from './signal.ts';

/** Follows signals through traces. */
export type SignalTraces = Pick<Traces, 'signalAccepted' | 'signalOver'>;

/** Why a permitted signal does not go to its handle. */
export type SignalRefusal = FullQuota | SignalProblem | 'expired' | 'member' | 'unregistered';

export interface SignalIntakeOptions {
  readonly handles: Pick<HandleRegistry, 'findFor'>;
  readonly outbox: Pick<Outbox, 'accept'>;
  /** For signals without a handle; `undefined`: they are refused. */
  readonly held: Pick<HeldSignals, 'has' | 'release'> | undefined;
  readonly admission: MinionKeys;
  /** Largest signal, bytes as JSON. */
  readonly maxBytes: number;
  readonly now: () => number;
  readonly reports: Pick<SignalReporter, 'accepted' | 'held' | 'refused'>;
}

/** The keys that minions have. */
type MinionKeys = Pick<ExtensionHost['admission'], 'keyOf'>;

/** What is read of an event. */
export type TakenSignal = Partial<TriggerEvent> &
  Pick<TriggerEvent, 'data' | 'request' | 'sender' | 'tag'>;

/** What became of a signal that was to be taken. */
export type IntakeResult =
  | { readonly kind: 'accepted'; readonly id: string }
  /** `isFull`: there may be room for it later. */
  | { readonly kind: 'refused'; readonly reason: string; readonly isFull: boolean };

/** Takes what minions signal. */
export class SignalIntake implements TakesSignals {
  readonly #options: SignalIntakeOptions;

  constructor(options: SignalIntakeOptions) {
    this.#options = options;
  }

  /** Whether the tag names a handle, registered or not. */
  isWanted(tag: string): boolean {
    return parseSignalTag(tag) !== undefined;
  }

  /** A signal for a handle waits for its minion's rate like a request. */
  isDelayed(tag: string): boolean {
    return this.isWanted(tag);
  }

  /**
   * Accepts a signal that the policy let in; it is durable when this resolves. One whose handle is
   * not registered for its minion is held until it is. The same request again adds none.
   * @returns the id of the signal; `undefined`: it was refused
   * @throws StoreError when it cannot be kept
   */
  async take(signal: TakenSignal): Promise<string | undefined> {
    const result = await this.accept(signal);
    return result.kind === 'accepted' ? result.id : undefined;
  }

  /** The same; tells what became of it. */
  async accept({ tag, sender, data, request, jid }: TakenSignal): Promise<IntakeResult> {
    const named = parseSignalTag(tag);
    if (named === undefined || sender === undefined) {
      return { kind: 'refused', reason: 'it is for no handle', isFull: false };
    }
    const { handles, held, maxBytes, now } = this.#options;
    const { alias, member } = named;
    // What was held before comes first.
    if (held?.has(alias, sender) && handles.findFor(alias, sender) !== undefined) {
      await held.release(alias, sender);
    }
    const handle = handles.findFor(alias, sender);
    const refusal =
      handle === undefined ? this.#refusalWithoutHandle() : signalRefusalOf(handle, member, now());
    if (refusal !== undefined) return this.#refuse(sender, alias, refusal);
    const read = parseSignal(data, maxBytes);
    if (!read.ok) return this.#refuse(sender, alias, read.complaint);
    // protection: signals-twice
    const mark =
      request === undefined ? undefined : { request: request.mark, place: request.place };
    const record = {
      alias,
      minion: sender,
      ...(member === undefined ? {} : { member }),
      ...(handle === undefined ? this.#heldFor(sender) : handleFieldsOf(handle)),
      signal: read.signal,
    };
    const acceptance = await this.#options.outbox.accept(record, mark);
    if (acceptance.kind === 'full') return this.#refuse(sender, alias, acceptance.quota, true);
    if (acceptance.kind === 'accepted') {
      const { reports } = this.#options;
      if (handle === undefined) reports.held(sender, alias, acceptance.id, jid);
      else reports.accepted(sender, alias, acceptance.id, jid);
    }
    // The handle may have come while it was written.
    if (handle === undefined && handles.findFor(alias, sender) !== undefined) {
      await held?.release(alias, sender);
    }
    return { kind: 'accepted', id: acceptance.id };
  }

  #refuse(minion: string, alias: string, refusal: SignalRefusal, isFull = false): IntakeResult {
    this.#options.reports.refused(minion, alias, refusal);
    return { kind: 'refused', reason: refusalTexts[refusal], isFull };
  }

  #refusalWithoutHandle(): SignalRefusal | undefined {
    return this.#options.held === undefined ? 'unregistered' : undefined;
  }

  #heldFor(minion: string): Pick<OutboxRecord, 'heldKey'> {
    const key = this.#options.admission.keyOf(minion)?.fingerprint;
    return key === undefined ? {} : { heldKey: key };
  }
}

function handleFieldsOf({
  id,
  stack,
  owner,
}: HandleInfo): Pick<OutboxRecord, 'handle' | 'owner' | 'stack'> {
  return { handle: id, stack, ...(owner === undefined ? {} : { owner }) };
}

/** Below `saltbridge/bridge/`, where minions cannot emit anything. */
const signalTags = {
  accepted: 'signal/accepted',
  held: 'signal/held',
  refused: 'signal/refused',
  delivered: 'signal/delivered',
  failed: 'signal/failed',
};

/** Why a signal is refused, as people read it. */
const refusalTexts: Readonly<Record<SignalRefusal, string>> = {
  bytes: 'it is larger than signal_bytes',
  room: 'the outbox is full',
  'data-no-json': 'data is no JSON',
  'field-unknown': 'it has other fields than status, reason and data',
  'not-a-map': 'it is no map',
  'reason-no-text': 'reason is no text',
  'status-unknown': 'status is neither SUCCESS nor FAILURE',
  entries: 'the outbox is full',
  expired: 'the handle has expired',
  member: 'the handle is not for this member',
  held: 'too many signals of this minion wait for handles that are not registered',
  perMinion: 'too many signals of this minion wait',
  perOwner: 'too many signals wait for the handles of this owner',
  perStack: 'too many signals for this stack wait',
  unregistered: 'no handle of this alias is registered for this minion',
};

/** Tells what becomes of signals: never what was signalled, or where to. */
export class SignalReporter {
  readonly #fire: (tag: string, data: WireMap) => void;
  readonly #log: Logger;
  readonly #traces: SignalTraces | undefined;
  /** How many are over since the start. */
  readonly over = { delivered: 0, dead: 0 };

  constructor(
    fire: (tag: string, data: WireMap) => void,
    log: Logger,
    traces: SignalTraces | undefined,
  ) {
    this.#fire = fire;
    this.#log = log;
    this.#traces = traces;
  }

  /** @param jid - the job that the signal was fired in, by the minion's own word */
  accepted(minion: string, handle: string, signal: string, jid: string | undefined): void {
    this.#fire(signalTags.accepted, { id: minion, handle, signal });
    this.#traces?.signalAccepted(minion, signal, jid);
  }

  /** @param jid - as of {@link accepted} */
  held(minion: string, handle: string, signal: string, jid: string | undefined): void {
    this.#fire(signalTags.held, { id: minion, handle, signal });
    this.#log.info({ minion, handle, signal }, 'signal held until its handle is registered');
    this.#traces?.signalAccepted(minion, signal, jid);
  }

  refused(minion: string, handle: string, refusal: SignalRefusal): void {
    const reason = refusalTexts[refusal];
    this.#fire(signalTags.refused, { id: minion, handle, reason });
    this.#log.info({ minion, handle, code: refusal }, 'signal refused');
  }

  delivered(record: OutboxRecord, { transport, origin }: HandleInfo): void {
    const { id: signal, alias: handle, minion } = record;
    this.over.delivered += 1;
    this.#fire(signalTags.delivered, { id: minion, handle, signal });
    this.#log.info({ minion, handle, signal, transport, origin }, 'signal delivered');
    this.#traces?.signalOver(record, undefined);
  }

  /** @param info - of its handle; `undefined`: there is none */
  givenUp(record: OutboxRecord, info: HandleInfo | undefined, reason: string): void {
    const { id: signal, alias: handle, minion } = record;
    const place = info === undefined ? {} : { transport: info.transport, origin: info.origin };
    this.over.dead += 1;
    this.#fire(signalTags.failed, { id: minion, handle, signal, reason });
    this.#log.warn({ minion, handle, signal, reason, ...place }, 'signal given up');
    this.#traces?.signalOver(record, reason);
  }
}

// Held signals: their handle is not registered yet, because a machine may boot before its stack is
// registered. They stay in the outbox until the handle is registered or they expire.

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
    // protection: held-for-one-key
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
      return 0;
    } catch (error) {
      log.error({ err: error }, 'held signals that are over are still in the outbox');
      return storeRetryMs;
    }
  }
}
