import { loadOnce } from '../runtime/index.ts';

/** The engine of a cluster: a program that has none does not load it. */
export const loadLogEngine: () => Promise<typeof import('./log/index.ts')> = loadOnce(
  () => import('./log/index.ts'),
);
