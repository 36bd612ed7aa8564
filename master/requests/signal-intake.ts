/** Receivers of events that minions fire. */

import type { WireMap, WireValue } from '#minion-protocol';

/** An event that something may follow from. */
export interface ReactionEvent {
  readonly tag: string;
  /** The minion that emitted it, or `undefined` for an event of the master. */
  readonly sender: string | undefined;
  /** The data that the sender gave. They fit the schema of the rule that permitted the event. */
  readonly data: WireValue | undefined;
  /** The whole event, as listeners receive it. */
  readonly body: WireMap;
}

/** An event and its origin. */
export interface TriggerEvent extends ReactionEvent {
  /** The rule that permitted it, or `undefined` where it needs none. */
  readonly rule: string | undefined;
  /** The job that the event reports, or in which it was fired. */
  readonly jid: string | undefined;
  /** The request that brought it and its place there, or `undefined` if it cannot arrive twice. */
  readonly request: { readonly mark: string; readonly place: number } | undefined;
}

/** Takes signals that the policy permitted. */
export interface SignalIntake {
  isWanted(tag: string, sender: string): boolean;
  /**
   * Whether a signal above its sender's rate waits, as requests do. Other signals are dropped, as
   * events are.
   */
  isDelayed?(tag: string, sender: string): boolean;
  /**
   * Stores a signal. It is durable when this resolves, and only then the master answers the minion.
   * The same request again adds nothing.
   * @returns the id of the signal, if it has one: the same for the same request
   * @throws StoreError when it cannot be stored: the minion sends it again
   */
  take(occurrence: TriggerEvent): Promise<string | undefined>;
}
