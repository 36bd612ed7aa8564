import { defineLimits } from '#runtime';

/** Limits that apply to the members of a cluster. */
export const clusterLimits = defineLimits('cluster', {
  filesAtOnce: {
    unit: 'files that are compared or copied at a time',
    owner: 'none',
    total: 16,
    effect: 'Further files wait.',
  },
  logKeys: {
    unit: 'cached keys of sessions that have written to the log',
    owner: 'none',
    total: 64,
    effect: 'The least recently used key is evicted, and derived again when it is needed.',
  },
});
