import { loadOnce } from '#runtime';

/** The engine of a cluster: a program that has none does not load it. */
export const loadLogEngine: () => Promise<typeof import('#cluster/log/index.ts')> = loadOnce(
  () => import('#cluster/log/index.ts'),
);
