import { defineLimits } from '#runtime';

/** Limits of texts that callers send as arguments. */
export const argumentLimits = defineLimits('arguments', {
  textThreads: {
    unit: 'large texts that are parsed in threads',
    owner: 'caller',
    amounts:
      'threads: the number of processors minus one, but 1 or 2; one more thread for callers that have no text in progress',
    reserved: 1,
    waiting: { perOwner: 32, total: 256 },
    effect: 'Further texts wait in turns, then are rejected.',
    code: 'ERR_ARGS',
  },
});
