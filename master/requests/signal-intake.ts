import type { WireMap, WireValue } from '#minion-protocol';

/** Event that can trigger a reaction. */
export interface ReactionEvent {
  readonly tag: string;
  /** Minion that emitted the event, or `undefined` for an event of the master. */
  readonly sender: string | undefined;
  /** Data given by the sender. It matches the schema of the rule that permitted the event. */
  readonly data: WireValue | undefined;
  /** Complete event, as subscribers receive it. */
  readonly body: WireMap;
}

/** Event with its origin. */
export interface TriggerEvent extends ReactionEvent {
  /** Rule that permitted the event, or `undefined` if none is needed. */
  readonly rule: string | undefined;
  /** Job that the event reports, or in which it was emitted. */
  readonly jid: string | undefined;
  /**
   * Request that contained the event and its position there, or `undefined` if it cannot arrive
   * twice.
   */
  readonly request: { readonly mark: string; readonly place: number } | undefined;
}

/** Receiver of signals that the policy permitted. */
export interface SignalIntake {
  isWanted(tag: string, sender: string): boolean;
  /**
   * Returns whether a signal above its sender's rate waits, as requests do. Other signals are
   * dropped, as events are.
   */
  isDelayed?(tag: string, sender: string): boolean;
  /**
   * Stores a signal durably before it resolves; only then does the master reply to the minion. A
   * repetition of the same request stores nothing.
   * @returns the id of the signal, if it has one; the same for the same request
   * @throws StoreError if it cannot be stored; the minion then sends it again
   */
  take(occurrence: TriggerEvent): Promise<string | undefined>;
}
