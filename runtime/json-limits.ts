import { defineLimits } from './limits.ts';

/** Limits of JSON texts. */
export const jsonLimits = defineLimits('json', {
  mapMembers: {
    unit: 'members of one map in a JSON text that is read in steps',
    owner: 'none',
    total: 32_768,
    effect: 'The text is rejected.',
  },
});
