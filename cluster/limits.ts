import { defineLimits } from '#runtime';

/** Limits that apply to the members of a cluster. */
export const clusterLimits = defineLimits('cluster', {
  filesAtOnce: {
    unit: 'files that are compared or copied at a time',
    owner: 'none',
    total: 16,
    effect: 'Further files wait.',
  },
});
