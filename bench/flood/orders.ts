import type { SwarmKeyText } from '../swarm/keys.ts';

/** Kind of attack. */
export type Attack =
  /** Events that no rule permits, with the key of an accepted minion, over a few connections. */
  | 'forbidden events'
  /**
   * The same events, but each connection is closed and replaced as soon as the master delays its
   * requests.
   */
  | 'forbidden events, reconnecting'
  /** Sign-ins of unknown ids. */
  | 'unknown ids'
  /** Sign-ins of a known id with its public key, which is not a secret. */
  | 'replayed key';

/**
 * Order for a process with attackers or other minions. The process replies when it has carried out
 * the order.
 */
export type FloodOrder =
  | {
      readonly do: 'enlist';
      readonly count: number;
      readonly keys: readonly SwarmKeyText[];
      readonly requestPort: number;
      /** Local address of the connections. */
      readonly address: string;
    }
  /**
   * Events of all minions together, at a given rate. Each minion waits for the reply before its
   * next event.
   */
  | { readonly do: 'demand'; readonly perSecond: number; readonly seconds: number }
  /** Occasional sign-ins of the minion whose public key the attacker replays. */
  | { readonly do: 'sign-ins'; readonly seconds: number }
  | {
      readonly do: 'attack';
      readonly attack: Attack;
      readonly perSecond: number;
      readonly seconds: number;
    };

/** Service that the process got. */
export interface FloodOutcome {
  readonly sent: number;
  readonly answered: number;
  /** Median duration until the reply, in milliseconds. */
  readonly medianMs: number;
  /** 99th percentile of the duration. */
  readonly ms99: number;
  /** Maximum duration. */
  readonly longestMs: number;
}

/** Result of an order, or the reason why it failed. */
export type FloodAnswer = FloodOutcome | { readonly error: string };
