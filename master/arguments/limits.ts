import { defineLimits } from '#runtime';

/** Limits of texts that callers send as arguments. */
export const argumentLimits = defineLimits('arguments', {
  textThreads: {
    unit: 'large texts that are parsed in threads',
    owner: 'caller',
    amounts:
      'threads: one less than the number of processors, but 1 or 2, and one for callers without a text',
    reserved: 1,
    waiting: { perOwner: 32, total: 256 },
    effect: 'Further texts wait in turns, then are rejected.',
    code: 'ERR_ARGS',
  },
});
