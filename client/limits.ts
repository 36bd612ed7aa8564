import { defineLimits } from '#runtime';

/** Limits of programs that use the interface of the master from another process. */
export const clientLimits = defineLimits('client', {
  publications: {
    unit: 'calls of `jobs.publish` in progress in one process',
    owner: 'none',
    total: 32,
    effect: 'Further calls wait.',
  },
});
