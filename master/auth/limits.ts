import { defineLimits } from '#runtime';

/** Limits of sign-ins and keys. */
export const authLimits = defineLimits('auth', {
  rsaTasks: {
    unit: 'RSA operations of sign-ins, pillar and publications, in threads',
    owner: 'minion',
    amounts:
      'threads: the number of processors; a sign-in counts for its address; the master counts as an owner',
    waiting: { perOwner: 4096, total: 8192 },
    effect: 'Further operations are rejected. Peers retry.',
    code: 'ERR_RSA_OVERLOAD',
  },
  keyPairs: {
    unit: 'key pairs that are generated at a time, in threads',
    owner: 'caller',
    perOwner: 1,
    total: 2,
    waiting: { perOwner: 16, total: 256 },
    effect: 'Further requests wait in turns, then are rejected.',
    code: 'ERR_LIMIT',
  },
  verifiedTokens: {
    unit: 'tokens of minions whose signature was verified',
    owner: 'none',
    total: 50_000,
    effect: 'The least recently used entry is evicted. Its next request is verified again.',
  },
});
