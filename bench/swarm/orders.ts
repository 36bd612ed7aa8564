import type { SwarmKeyText } from './keys.ts';

/** What the swarm is told to do; it answers each order when it is done. */
export type Order =
  | {
      readonly do: 'enlist';
      readonly count: number;
      readonly keys: readonly SwarmKeyText[];
      readonly requestPort: number;
      /** Request connections that all minions share. */
      readonly connections: number;
    }
  | { readonly do: 'sign-in'; readonly atOnce: number }
  | { readonly do: 'subscribe'; readonly publishPort: number }
  | { readonly do: 'events' | 'pillars'; readonly count: number; readonly atOnce: number };

/** What the swarm answers. */
export type Outcome = { readonly done: string; readonly ms: number } | { readonly error: string };
