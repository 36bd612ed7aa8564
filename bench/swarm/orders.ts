import type { SwarmKeyText } from './keys.ts';

/**
 * Order for the process with the simulated minions. The process replies when it has carried out the
 * order.
 */
export type Order =
  /** Stores the public keys of all minions as accepted keys. */
  | {
      readonly do: 'accept';
      readonly pkiDir: string;
      readonly count: number;
      readonly keys: readonly SwarmKeyText[];
    }
  | {
      readonly do: 'enlist';
      /** Index of the first minion. Default: 0. */
      readonly first?: number;
      readonly count: number;
      readonly keys: readonly SwarmKeyText[];
      readonly requestPort: number;
      /** Number of request connections that all minions share. */
      readonly connections: number;
    }
  /**
   * Signs in all minions. With `isAnew`, they decrypt the session keys as in their first sign-in.
   */
  | { readonly do: 'sign-in'; readonly concurrency: number; readonly isAnew?: boolean }
  | { readonly do: 'subscribe'; readonly publishPort: number }
  /** The first `count` minions fetch a file at the same time. */
  | { readonly do: 'files'; readonly count: number; readonly path: string }
  /** The first `count` minions request the list of files at the same time. */
  | { readonly do: 'file-lists'; readonly count: number }
  /**
   * Encrypts events, which the order `events` then sends. Their encryption is the work of minions
   * and is not measured.
   */
  | { readonly do: 'seal-events'; readonly count: number }
  | { readonly do: 'events'; readonly concurrency: number }
  | { readonly do: 'pillars'; readonly count: number; readonly concurrency: number };

/** Result of an order. */
export type Outcome = { readonly done: string; readonly ms: number } | { readonly error: string };
