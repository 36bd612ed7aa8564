// A thread loads this file, so it imports one module of the room and not all of it.
import { defineLimits } from '#runtime/limits.ts';

/** Limits of the threads for RSA. */
export const rsaLimits = defineLimits('rsa', {
  importedKeys: {
    unit: 'imported public keys of each thread',
    owner: 'none',
    total: 2_048,
    effect: 'The least recently used entry is evicted.',
  },
});
