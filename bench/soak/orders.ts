import type { SwarmKeyText } from '../swarm/keys.ts';

/**
 * Order for the process with the soak's minions. The process replies when it has carried out the
 * order.
 */
export type SoakOrder =
  | {
      readonly do: 'enlist';
      readonly ids: readonly string[];
      readonly keys: readonly SwarmKeyText[];
      readonly requestPort: number;
      readonly publishPort: number;
    }
  /** All minions sign in and subscribe. */
  | { readonly do: 'start' }
  | {
      readonly do: 'load';
      readonly eventsPerSecond: number;
      readonly reconnectsPerSecond: number;
    }
  | { readonly do: 'report' }
  /** Stops events and reconnections. Minions still respond to jobs. */
  | { readonly do: 'rest' }
  /** Waits until no request is unanswered, at most `graceMs`. */
  | { readonly do: 'drain'; readonly graceMs: number };

/** Results of all requests since the start. */
export interface SoakCounts {
  readonly sent: number;
  readonly answered: number;
  /** Requests that are still waiting for a reply. */
  readonly waiting: number;
  /** Requests that were answered with Salt's `bad load`. */
  readonly refused: number;
  /**
   * Requests with a wrong reply: it could not be decrypted, or belonged to another request. Must
   * stay 0.
   */
  readonly wrong: number;
  /** Requests without a reply because the minion itself closed the connection. */
  readonly left: number;
  /** Requests without a reply because the master closed the connection, by minion id. */
  readonly cut: Readonly<Record<string, number>>;
  readonly events: number;
  readonly signIns: number;
  readonly reconnects: number;
  readonly longestAnswerMs: number;
}

/**
 * Message from the process: the result of an order, or a failure that is not related to an order.
 */
export type SoakOutcome =
  | { readonly counts: SoakCounts }
  | { readonly error: string }
  | { readonly failure: string };
