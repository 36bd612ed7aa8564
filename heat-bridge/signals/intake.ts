/** From what minions signal to the outbox. */
import type { Occurrence, SignalIntake as TakesSignals } from '../../master/index.ts';
import { type HandleInfo, parseSignalTag, refusalBy } from './handle.ts';
import type { Handles } from './handles.ts';
import type { HeldSignals } from './held-signals.ts';
import type { Acceptance, Outbox } from './outbox.ts';
import type { OutboxRecord } from './outbox-record.ts';
import type { FullQuota } from './quotas.ts';
import { readSignal, type SignalComplaint } from './signal.ts';

/** Why a permitted signal does not go to its handle. */
export type SignalRefusal = FullQuota | SignalComplaint | 'expired' | 'member' | 'unregistered';

/** What {@link SignalIntake} needs. */
export interface SignalIntakeOptions {
  readonly handles: Pick<Handles, 'findFor'>;
  readonly outbox: Pick<Outbox, 'accept'>;
  /** For signals without a handle; `undefined`: they are refused. */
  readonly held: Pick<HeldSignals, 'has' | 'release'> | undefined;
  /** Fingerprint of the key that a minion has. */
  readonly keyOf: (minion: string) => string | undefined;
  /** Largest signal, bytes as JSON. */
  readonly maxBytes: number;
  readonly now: () => number;
  /** Told of each that was accepted; must not throw. */
  readonly onAccepted: (minion: string, alias: string, id: string) => void;
  /** Told of each that is held for its handle; must not throw. */
  readonly onHeld: (minion: string, alias: string, id: string) => void;
  /** Told of each that was refused; must not throw. */
  readonly onRefused: (minion: string, alias: string, refusal: SignalRefusal) => void;
}

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
   * @throws StoreError when it cannot be kept
   */
  async take({ tag, sender, data, request }: Occurrence): Promise<void> {
    const named = parseSignalTag(tag);
    if (named === undefined || sender === undefined) return;
    const { handles, held, maxBytes, now, onRefused } = this.#options;
    const { alias, member } = named;
    // What was held before comes first.
    if (held?.has(alias, sender) && handles.findFor(alias, sender) !== undefined) {
      await held.release(alias, sender);
    }
    const handle = handles.findFor(alias, sender);
    const refusal =
      handle === undefined ? this.#refusalWithoutHandle() : refusalBy(handle, member, now());
    if (refusal !== undefined) return onRefused(sender, alias, refusal);
    const read = readSignal(data, maxBytes);
    if (!read.ok) return onRefused(sender, alias, read.complaint);
    // protection: signals-twice
    const mark =
      request === undefined ? undefined : { request: request.mark, place: request.place };
    const record = {
      alias,
      minion: sender,
      ...(member === undefined ? {} : { member }),
      ...(handle === undefined ? this.#heldFor(sender) : placeOf(handle)),
      signal: read.signal,
    };
    const acceptance = await this.#options.outbox.accept(record, mark);
    this.#report(sender, alias, acceptance, handle !== undefined);
    // The handle may have come while it was written.
    if (handle === undefined && handles.findFor(alias, sender) !== undefined) {
      await held?.release(alias, sender);
    }
  }

  #refusalWithoutHandle(): SignalRefusal | undefined {
    return this.#options.held === undefined ? 'unregistered' : undefined;
  }

  #heldFor(minion: string): Pick<OutboxRecord, 'heldKey'> {
    const key = this.#options.keyOf(minion);
    return key === undefined ? {} : { heldKey: key };
  }

  #report(minion: string, alias: string, acceptance: Acceptance, hasHandle: boolean): void {
    const { onAccepted, onHeld, onRefused } = this.#options;
    if (acceptance.kind === 'full') onRefused(minion, alias, acceptance.quota);
    if (acceptance.kind !== 'accepted') return;
    (hasHandle ? onAccepted : onHeld)(minion, alias, acceptance.id);
  }
}

function placeOf({
  id,
  stack,
  owner,
}: HandleInfo): Pick<OutboxRecord, 'handle' | 'owner' | 'stack'> {
  return { handle: id, stack, ...(owner === undefined ? {} : { owner }) };
}
