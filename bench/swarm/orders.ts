import type { SwarmKeyText } from './keys.ts';

/** What the swarm is told to do; it answers each order when it is done. */
export type Order =
  /** The keys of all minions are put where an accepted key lies. */
  | {
      readonly do: 'accept';
      readonly pkiDir: string;
      readonly count: number;
      readonly keys: readonly SwarmKeyText[];
    }
  | {
      readonly do: 'enlist';
      /** The number of the first of them; default 0. */
      readonly first?: number;
      readonly count: number;
      readonly keys: readonly SwarmKeyText[];
      readonly requestPort: number;
      /** Request connections that all minions share. */
      readonly connections: number;
    }
  /** `isAnew`: they open the session that they are given, as at the first time. */
  | { readonly do: 'sign-in'; readonly concurrency: number; readonly isAnew?: boolean }
  | { readonly do: 'subscribe'; readonly publishPort: number }
  /** The first `count` minions fetch a file each, all at once. */
  | { readonly do: 'files'; readonly count: number; readonly path: string }
  /** The first `count` minions ask for the list of files, all at once. */
  | { readonly do: 'file-lists'; readonly count: number }
  /** So many events are sealed, to be sent by the order `events`: that is the minions' work. */
  | { readonly do: 'seal-events'; readonly count: number }
  | { readonly do: 'events'; readonly concurrency: number }
  | { readonly do: 'pillars'; readonly count: number; readonly concurrency: number };

/** What the swarm answers. */
export type Outcome = { readonly done: string; readonly ms: number } | { readonly error: string };
