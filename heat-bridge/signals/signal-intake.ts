/** Stores signals of minions in the outbox, and holds those without a handle. */

import type { SignalIntake as TakesSignals, TriggerEvent } from '#master';
import {
  type HandleInfo,
  type HandleRegistry,
  parseSignalTag,
  signalRefusalOf,
} from './handles.ts';
import type { HeldSignals, MinionKeys } from './held-signals.ts';
import type { Outbox } from './outbox.ts';
import type { OutboxRecord } from './outbox-records.ts';
import { parseSignal } from './signal.ts';
import { refusalTexts, type SignalRefusal, type SignalReporter } from './signal-reporter.ts';

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
