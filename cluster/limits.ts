import { defineLimits } from '#runtime';

/** Limits of the cluster. */
export const clusterLimits = defineLimits('cluster', {
  filesAtOnce: {
    unit: 'files that are compared or copied at a time',
    owner: 'none',
    total: 16,
    effect: 'Further files wait.',
  },
});
