/** From what minions signal to the outbox. */
import type { Occurrence, SignalIntake as TakesSignals } from '../../master/index.ts';
import { type HandleInfo, parseSignalTag } from './handle.ts';
import type { Handles } from './handles.ts';
import type { Outbox } from './outbox.ts';
import type { FullQuota } from './quotas.ts';
import { readSignal, type SignalComplaint } from './signal.ts';

/** Why a permitted signal does not go to its handle. */
export type SignalRefusal = FullQuota | SignalComplaint | 'expired' | 'member' | 'minion';

/** What {@link SignalIntake} needs. */
export interface SignalIntakeOptions {
  readonly handles: Pick<Handles, 'find' | 'has'>;
  readonly outbox: Pick<Outbox, 'accept'>;
  /** Largest signal, bytes as JSON. */
  readonly maxBytes: number;
  readonly now: () => number;
  /** Told of each that was accepted; must not throw. */
  readonly onAccepted: (minion: string, alias: string, id: string) => void;
  /** Told of each that was refused; must not throw. */
  readonly onRefused: (minion: string, alias: string, refusal: SignalRefusal) => void;
}

/** See above. */
export class SignalIntake implements TakesSignals {
  readonly #options: SignalIntakeOptions;

  constructor(options: SignalIntakeOptions) {
    this.#options = options;
  }

  /** Whether the tag names a registered handle. */
  isWanted(tag: string): boolean {
    const named = parseSignalTag(tag);
    return named !== undefined && this.#options.handles.has(named.alias);
  }

  /** A signal for a handle waits for its minion's rate like a request. */
  isDelayed(tag: string): boolean {
    return this.isWanted(tag);
  }

  /**
   * Accepts a signal that the policy let in; it is durable when this resolves. The same request
   * again adds none.
   * @throws StoreError when it cannot be kept
   */
  async take({ tag, sender, data, request }: Occurrence): Promise<void> {
    const named = parseSignalTag(tag);
    const handle = named === undefined ? undefined : this.#options.handles.find(named.alias);
    if (named === undefined || handle === undefined || sender === undefined) return;
    const refusal = this.#refusalOf(handle, sender, named.member);
    if (refusal !== undefined) return this.#options.onRefused(sender, handle.alias, refusal);
    const read = readSignal(data, this.#options.maxBytes);
    if (!read.ok) return this.#options.onRefused(sender, handle.alias, read.complaint);
    const { member } = named;
    const mark =
      request === undefined ? undefined : { request: request.mark, place: request.place };
    const record = {
      alias: handle.alias,
      handle: handle.id,
      minion: sender,
      ...(member === undefined ? {} : { member }),
      stack: handle.stack,
      signal: read.signal,
    };
    const acceptance = await this.#options.outbox.accept(record, mark);
    if (acceptance.kind === 'full') {
      this.#options.onRefused(sender, handle.alias, acceptance.quota);
    } else if (acceptance.kind === 'accepted') {
      this.#options.onAccepted(sender, handle.alias, acceptance.id);
    }
  }

  #refusalOf(
    { minions, members, expiresAt }: HandleInfo,
    sender: string,
    member: string | undefined,
  ): SignalRefusal | undefined {
    if (!minions.includes(sender)) return 'minion';
    const isMember = member === undefined ? members.length === 0 : members.includes(member);
    if (!isMember) return 'member';
    return expiresAt <= this.#options.now() ? 'expired' : undefined;
  }
}
