import type { SwarmKeyText } from '../swarm/keys.ts';

/** Who floods, and with what. */
export type Attack =
  /** Events that nothing permits, under the key of an accepted minion, over a few connections. */
  | 'forbidden events'
  /** The same, over connections that are given up as soon as they are held back. */
  | 'forbidden events, reconnecting'
  /** Sign-ins of ids that nobody knows. */
  | 'unknown ids'
  /** Sign-ins of a known id with its public key, which is no secret. */
  | 'replayed key';

/** What a process of peers is told; it answers each order when it is carried out. */
export type FloodOrder =
  | {
      readonly do: 'enlist';
      readonly count: number;
      readonly keys: readonly SwarmKeyText[];
      readonly requestPort: number;
      /** Where its connections come from. */
      readonly address: string;
    }
  /** So many events a second by all together, their own, each answered before the next. */
  | { readonly do: 'demand'; readonly perSecond: number; readonly seconds: number }
  /** A sign-in now and then, of the minion whose key the attacker replays. */
  | { readonly do: 'sign-ins'; readonly seconds: number }
  | {
      readonly do: 'attack';
      readonly attack: Attack;
      readonly perSecond: number;
      readonly seconds: number;
    };

/** What a process of peers got. */
export interface FloodOutcome {
  readonly sent: number;
  readonly answered: number;
  /** Milliseconds until the answer: the middle one, that of 99 in 100, the longest. */
  readonly medianMs: number;
  readonly ms99: number;
  readonly longestMs: number;
}

/** An order's outcome, or why there is none. */
export type FloodAnswer = FloodOutcome | { readonly error: string };
