import { defineLimits } from '#runtime';

/** Limit on the cache of parsed configuration files. */
export const configLimits = defineLimits('config', {
  parsedTexts: {
    unit: 'characters of large configuration files whose content is in memory',
    owner: 'none',
    total: 1_048_576,
    effect: 'The least recently used file is parsed again.',
  },
});
