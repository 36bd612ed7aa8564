import { defineLimits } from '#runtime';

/** Limits of the store. */
export const storeLimits = defineLimits('store', {
  queuedChanges: {
    unit: 'changes that wait for one watcher',
    owner: 'caller',
    perOwner: 10_000,
    effect: 'The watch ends.',
    code: 'ERR_WATCH_OVERRUN',
  },
});
