/**
 * Accepts signals of minions and stores them in the outbox. Signals for which no handle is
 * registered are held.
 */

import type { SignalIntake as TakesSignals, TriggerEvent } from '#master';
import type { WireValue } from '#minion-protocol';
import { type ArgumentsSource, argumentsSourceOf, signalOfArguments } from './event-arguments.ts';
import {
  type HandleInfo,
  type HandleRegistry,
  parseSignalTag,
  signalRefusalOf,
} from './handles.ts';
import type { HeldSignals, MinionKeys } from './held-signals.ts';
import type { Outbox } from './outbox.ts';
import type { OutboxRecord } from './outbox-records.ts';
import {
  emptySuccess,
  type ParsedSignal,
  parseSignal,
  type Signal,
  type SignalProblem,
  unreadableSignal,
} from './signal.ts';
import { refusalTexts, type SignalRefusal, type SignalReporter } from './signal-reporter.ts';

export interface SignalIntakeOptions {
  readonly handles: Pick<HandleRegistry, 'findFor'>;
  readonly outbox: Pick<Outbox, 'accept'>;
  readonly held: Pick<HeldSignals, 'delay' | 'has' | 'release'>;
  /**
   * Whether signals without a registered handle are stored until a handle is registered. If false,
   * such signals are rejected.
   */
  readonly holdsUnregistered: boolean;
  /**
   * Function that waits until the `salt-call` that fired an event has returned its result. It
   * returns the arguments in this result, or `undefined` if no result arrives in time. The property
   * is `undefined` if the bridge cannot observe returns.
   */
  readonly returnedArguments:
    | ((minion: string, tag: string) => Promise<readonly WireValue[] | undefined>)
    | undefined;
  readonly admission: MinionKeys;
  /** Maximum size of a signal, in bytes of JSON. */
  readonly maxBytes: number;
  readonly now: () => number;
  readonly reports: Pick<SignalReporter, 'accepted' | 'held' | 'refused' | 'unreadable'>;
}

/** Fields of an event that are read to accept it as a signal. */
export type TakenSignal = Partial<TriggerEvent> &
  Pick<TriggerEvent, 'data' | 'request' | 'sender' | 'tag'>;

/** Signal in the form in which it is stored. */
type ReadSignal = Pick<OutboxRecord, 'isEmpty' | 'signal'>;

/** Result of accepting a signal. */
export type IntakeResult =
  | { readonly kind: 'accepted'; readonly id: string }
  /**
   * The signal was rejected. If `isFull` is true, a quota is exhausted, and a later attempt can
   * succeed.
   */
  | { readonly kind: 'refused'; readonly reason: string; readonly isFull: boolean };

/** Accepts the signals of minions. */
export class SignalIntake implements TakesSignals {
  readonly #options: SignalIntakeOptions;
  /**
   * Sends a signal that has no registered handle to another master, and returns the signal's id. A
   * site sends such signals to its centre in this way. If this function is `undefined`, such
   * signals are held or rejected.
   */
  elsewhere: ((signal: TakenSignal) => Promise<string>) | undefined;

  constructor(options: SignalIntakeOptions) {
    this.#options = options;
  }

  /**
   * Whether events with this tag are signals: the tag names a handle. The handle need not be
   * registered.
   */
  isWanted(tag: string): boolean {
    return parseSignalTag(tag) !== undefined;
  }

  /**
   * Whether an event is delayed instead of dropped if its minion exceeds the event rate. This
   * applies to all signals for handles.
   */
  isDelayed(tag: string): boolean {
    return this.isWanted(tag);
  }

  /**
   * Accepts a permitted event of a minion. Resolves when the signal is durable. If no handle is
   * registered for the minion, the signal is held, or rejected if `holdsUnregistered` is false. A
   * repeated request adds no signal. The minion receives no error for an event. Therefore FAILURE
   * is sent to Heat for an event that is not a valid signal.
   * @returns the id of the signal, or `undefined` if it was rejected
   * @throws StoreError if it cannot be stored
   */
  async take(signal: TakenSignal): Promise<string | undefined> {
    const result = await this.#accept(signal, true);
    return result.kind === 'accepted' ? result.id : undefined;
  }

  /**
   * Accepts a signal whose sender waits for the result. If the signal is invalid, the sender
   * receives a rejection, and nothing is sent to Heat.
   * @throws StoreError if it cannot be stored
   */
  accept(signal: TakenSignal): Promise<IntakeResult> {
    return this.#accept(signal, false);
  }

  /**
   * Accepts a permitted event of a minion, and returns the result. Heat receives a FAILURE for an
   * event that is not a valid signal.
   * @throws StoreError if it cannot be stored
   */
  acceptEvent(signal: TakenSignal): Promise<IntakeResult> {
    return this.#accept(signal, true);
  }

  async #accept(taken: TakenSignal, isEvent: boolean): Promise<IntakeResult> {
    const { tag, sender, request } = taken;
    const named = parseSignalTag(tag);
    if (named === undefined || sender === undefined) {
      return {
        kind: 'refused',
        reason: 'the tag of the signal is not heat/ALIAS or heat/ALIAS/MEMBER',
        isFull: false,
      };
    }
    const { handles, held, maxBytes, now, reports } = this.#options;
    const { alias, member } = named;
    // First assign earlier signals that are held, so that signals stay in order.
    if (held.has(alias, sender) && handles.findFor(alias, sender) !== undefined) {
      await held.release(alias, sender, true);
    }
    const handle = handles.findFor(alias, sender);
    if (handle === undefined && this.elsewhere !== undefined) {
      return { kind: 'accepted', id: await this.elsewhere(taken) };
    }
    const refusal =
      handle === undefined ? this.#refusalWithoutHandle() : signalRefusalOf(handle, member, now());
    if (refusal !== undefined) return this.#refuse(sender, alias, refusal);
    const { read, source } = readData(taken, maxBytes);
    const signal = read.ok ? { signal: read.signal } : substituteFor(read.complaint, tag, handle);
    if (!read.ok && !isEvent && signal.signal !== emptySuccess) {
      return this.#refuse(sender, alias, read.complaint);
    }
    const later = source?.kind === 'return' ? this.#signalOfReturn(sender, tag, alias) : undefined;
    if (!read.ok && later === undefined && signal.signal !== emptySuccess) {
      reports.unreadable(sender, alias, read.complaint);
    }
    const mark =
      request === undefined ? undefined : { request: request.mark, place: request.place };
    const isHeld = handle === undefined || later !== undefined;
    const common = { alias, minion: sender, ...(member === undefined ? {} : { member }) };
    const heldSignal = later === undefined ? signal : substituteFor('empty', tag, undefined);
    const waiting = { ...common, ...this.#heldFor(sender), ...heldSignal };
    const whole = handle && { ...common, ...handleFieldsOf(handle), ...signal };
    const { outbox } = this.#options;
    let acceptance = await outbox.accept(isHeld || whole === undefined ? waiting : whole, mark);
    // Too many signals are held. Deliver the signal without waiting for its data.
    if (acceptance.kind === 'full' && isHeld && whole !== undefined) {
      acceptance = await outbox.accept(whole, mark);
    }
    if (acceptance.kind === 'full') return this.#refuse(sender, alias, acceptance.quota, true);
    const { id } = acceptance;
    if (acceptance.kind === 'accepted') {
      if (handle === undefined) reports.held(sender, alias, id, taken.jid);
      else reports.accepted(sender, alias, id, taken.jid);
      if (later !== undefined) held.delay(id, sender, later);
    }
    // The handle may have been registered while the signal was stored.
    if (handle === undefined && handles.findFor(alias, sender) !== undefined) {
      await held.release(alias, sender);
    }
    return { kind: 'accepted', id };
  }

  /**
   * Waits for the return that `salt-call` sends after an event, and parses the signal in its
   * arguments.
   * @returns `undefined` if the bridge cannot observe returns. Otherwise a promise that resolves to
   * the signal. It resolves to `undefined` if no data arrived; the handle then decides between
   * SUCCESS and FAILURE
   */
  #signalOfReturn(
    minion: string,
    tag: string,
    alias: string,
  ): Promise<Signal | undefined> | undefined {
    const { returnedArguments, handles, maxBytes, reports } = this.#options;
    return returnedArguments?.(minion, tag).then((args = []) => {
      const read = signalOfArguments(args, maxBytes);
      if (read.ok) return read.signal;
      const isAccepted = handles.findFor(alias, minion)?.emptyIsSuccess === true;
      if (read.complaint === 'empty' && isAccepted) return undefined;
      reports.unreadable(minion, alias, read.complaint);
      const { signal, isEmpty } = substituteFor(read.complaint, tag, undefined);
      return isEmpty === true ? undefined : signal;
    });
  }

  #refuse(minion: string, alias: string, refusal: SignalRefusal, isFull = false): IntakeResult {
    this.#options.reports.refused(minion, alias, refusal);
    return { kind: 'refused', reason: refusalTexts[refusal], isFull };
  }

  #refusalWithoutHandle(): SignalRefusal | undefined {
    return this.#options.holdsUnregistered ? undefined : 'unregistered';
  }

  #heldFor(minion: string): Pick<OutboxRecord, 'heldKey'> {
    const key = this.#options.admission.keyOf(minion)?.fingerprint;
    return key === undefined ? {} : { heldKey: key };
  }
}

/**
 * Parses the data of an event as a signal. If the event has no data, parses the arguments of the
 * call that fired the event.
 * @returns the parsed signal. If these arguments have not arrived yet, also returns `source`, which
 * states where they will arrive
 */
function readData(
  { data, body }: TakenSignal,
  maxBytes: number,
): { readonly read: ParsedSignal; readonly source?: ArgumentsSource } {
  const read = parseSignal(data, maxBytes);
  if (read.ok || read.complaint !== 'empty') return { read };
  const source = argumentsSourceOf(body);
  if (source?.kind === 'job') return { read: signalOfArguments(source.args, maxBytes) };
  return source === undefined ? { read } : { read, source };
}

/**
 * Returns the signal to store for an event whose data is missing or invalid. The signal is a
 * FAILURE, unless the event has no data and the handle treats such events as a success. If the
 * event has no data, a FAILURE has the field `isEmpty`. Because of this field, a handle that is
 * registered later can still change the signal to SUCCESS.
 */
function substituteFor(
  problem: SignalProblem,
  tag: string,
  handle: HandleInfo | undefined,
): ReadSignal {
  if (problem === 'empty' && handle?.emptyIsSuccess === true) return { signal: emptySuccess };
  const signal = unreadableSignal(tag, refusalTexts[problem]);
  return problem === 'empty' ? { signal, isEmpty: true } : { signal };
}

function handleFieldsOf({
  id,
  stack,
  owner,
}: HandleInfo): Pick<OutboxRecord, 'handle' | 'owner' | 'stack'> {
  return { handle: id, stack, ...(owner === undefined ? {} : { owner }) };
}
