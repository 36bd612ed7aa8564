import type { WireMap, WireValue } from '#minion-protocol';

/** Event that may trigger a reaction. */
export interface ReactionEvent {
  readonly tag: string;
  /** Minion that emitted the event, or `undefined` for an event of the master. */
  readonly sender: string | undefined;
  /**
   * Site that caused an event of the master. Reactions to the event count for this owner. Default:
   * the sender.
   */
  readonly owner?: string | undefined;
  /**
   * Whether a reaction called the runner or wheel function that this event reports. Default: false.
   */
  readonly isOfReaction?: boolean;
  /** Data that the sender sent. It matches the schema of the rule that permitted the event. */
  readonly data: WireValue | undefined;
  /** Complete event, as subscribers receive it. */
  readonly body: WireMap;
}

/**
 * Event with the rule that permitted it, the job that it is about, and the request that contained
 * it. {@link SignalIntake} receives events in this form.
 */
export interface TriggerEvent extends ReactionEvent {
  /**
   * Name of the rule that permitted the event. `undefined` for events of the master, which need no
   * permission.
   */
  readonly rule: string | undefined;
  /**
   * Id of the job that emitted the event, or about which the event reports. `undefined` if there is
   * none.
   */
  readonly jid: string | undefined;
  /**
   * Identifier of the request that contained the event, and the position of the event in the
   * request, counted from 0. `undefined` if the event cannot be received twice.
   */
  readonly request: { readonly mark: string; readonly place: number } | undefined;
}

/**
 * Module of an extension that stores permitted events of minions durably, for example as signals of
 * the bridge or to start reactions.
 */
export interface SignalIntake {
  isWanted(tag: string, sender: string): boolean;
  /**
   * Returns whether an event that exceeds the sender's rate limit waits, instead of being dropped.
   */
  isDelayed?(tag: string, sender: string): boolean;
  /**
   * Stores an event durably. The master replies to the minion only after the promise has resolved.
   * If the same request is repeated, nothing is stored.
   * @returns the id of the signal if it has one. A repeated request gets the same id
   * @throws StoreError if the event cannot be stored. The minion then sends it again
   */
  take(occurrence: TriggerEvent): Promise<string | undefined>;
}
