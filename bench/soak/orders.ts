import type { SwarmKeyText } from '../swarm/keys.ts';

/** What the soak's swarm is told; it answers each order when it is carried out. */
export type SoakOrder =
  | {
      readonly do: 'enlist';
      readonly ids: readonly string[];
      readonly keys: readonly SwarmKeyText[];
      readonly requestPort: number;
      readonly publishPort: number;
    }
  /** Everybody signs in and subscribes. */
  | { readonly do: 'start' }
  | {
      readonly do: 'load';
      readonly eventsPerSecond: number;
      readonly reconnectsPerSecond: number;
    }
  | { readonly do: 'report' }
  /** No more events and reconnections; jobs are still answered. */
  | { readonly do: 'rest' }
  /** Carried out when no request waits, or after `graceMs`. */
  | { readonly do: 'drain'; readonly graceMs: number };

/** What became of every request since the start. */
export interface SoakCounts {
  readonly sent: number;
  readonly answered: number;
  /** Those that are still waiting for an answer. */
  readonly waiting: number;
  /** Answered with Salt's `bad load`. */
  readonly refused: number;
  /** Answered with something that does not open, or is not for the request. Must stay 0. */
  readonly wrong: number;
  /** Without an answer because the swarm itself ended the connection. */
  readonly left: number;
  /** Without an answer because the master ended the connection, by id. */
  readonly cut: Readonly<Record<string, number>>;
  readonly events: number;
  readonly signIns: number;
  readonly reconnects: number;
  readonly longestAnswerMs: number;
}

/** What the swarm tells: an order's outcome, or what failed beside the orders. */
export type SoakOutcome =
  | { readonly counts: SoakCounts }
  | { readonly error: string }
  | { readonly failure: string };
