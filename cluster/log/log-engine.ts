import { loadOnce } from '#runtime';

/** Loads the engine of a cluster, with its connection to NATS. */
export const loadLogEngine: () => Promise<typeof import('./index.ts')> = loadOnce(
  () => import('./index.ts'),
);
