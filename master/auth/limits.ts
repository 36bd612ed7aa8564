import { defineLimits } from '#runtime';

/** Limits of sign-ins and keys. */
export const authLimits = defineLimits('auth', {
  verifiedTokens: {
    unit: 'tokens of minions whose signature was verified',
    owner: 'none',
    total: 50_000,
    effect: 'The least recently used entry is evicted. Its next request is verified again.',
  },
  importedKeys: {
    unit: 'imported public keys of each thread',
    owner: 'none',
    total: 2_048,
    effect: 'The least recently used entry is evicted.',
  },
});
