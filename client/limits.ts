import { defineLimits } from '#runtime';

/** Limits of programs that use the interface of the master from another process. */
export const clientLimits = defineLimits('client', {
  publications: {
    unit: 'publications in progress of a process',
    owner: 'none',
    total: 32,
    effect: 'Further publications wait.',
  },
});
