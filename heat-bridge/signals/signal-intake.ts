/** Stores signals of minions in the outbox, and holds those without a handle. */

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
  /** Whether signals without a handle are held, or refused. */
  readonly holdsUnregistered: boolean;
  /** Returns the arguments of the call of `salt-call` that fired an event, once it returns. */
  readonly returnedArguments:
    | ((minion: string, tag: string) => Promise<readonly WireValue[] | undefined>)
    | undefined;
  readonly admission: MinionKeys;
  /** Largest signal, bytes as JSON. */
  readonly maxBytes: number;
  readonly now: () => number;
  readonly reports: Pick<SignalReporter, 'accepted' | 'held' | 'refused' | 'unreadable'>;
}

/** What is read of an event. */
export type TakenSignal = Partial<TriggerEvent> &
  Pick<TriggerEvent, 'data' | 'request' | 'sender' | 'tag'>;

/** A signal as it is stored. */
type ReadSignal = Pick<OutboxRecord, 'isEmpty' | 'signal'>;

/** Result of accepting a signal. */
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
   * Accepts the event of a minion that the policy permitted; it is durable when this resolves. One
   * whose handle is not registered for its minion is held until it is. The same request again adds
   * none. The minion gets no error, so an event that cannot be read becomes a FAILURE for Heat.
   * @returns the id of the signal; `undefined`: it was refused
   * @throws StoreError when it cannot be kept
   */
  async take(signal: TakenSignal): Promise<string | undefined> {
    const result = await this.#accept(signal, true);
    return result.kind === 'accepted' ? result.id : undefined;
  }

  /** Accepts a signal of a sender that gets the result: data that cannot be read is refused. */
  accept(signal: TakenSignal): Promise<IntakeResult> {
    return this.#accept(signal, false);
  }

  async #accept(taken: TakenSignal, isEvent: boolean): Promise<IntakeResult> {
    const { tag, sender, request } = taken;
    const named = parseSignalTag(tag);
    if (named === undefined || sender === undefined) {
      return { kind: 'refused', reason: 'it is for no handle', isFull: false };
    }
    const { handles, held, maxBytes, now, reports } = this.#options;
    const { alias, member } = named;
    // What was held before comes first.
    if (held.has(alias, sender) && handles.findFor(alias, sender) !== undefined) {
      await held.release(alias, sender, true);
    }
    const handle = handles.findFor(alias, sender);
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
    // Too many are held: the handle decides without the data.
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
    // The handle may have come while it was written.
    if (handle === undefined && handles.findFor(alias, sender) !== undefined) {
      await held.release(alias, sender);
    }
    return { kind: 'accepted', id };
  }

  /**
   * The signal in the arguments of `salt-call`, which returns them after the event; `undefined`: they
   * hold no data, and the handle decides.
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
 * Reads the data of an event. If it has none, the arguments of the call that fired it may have it.
 * @returns `source` where the arguments are to follow
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
 * Returns the signal in place of data that cannot be read. If the event has no data, the handle
 * decides; without a handle, `isEmpty` leaves the decision to the handle that is registered later.
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
