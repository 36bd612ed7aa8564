import { defineLimits } from '#runtime';

/** Limits of configuration files. */
export const configLimits = defineLimits('config', {
  configFileBytes: {
    unit: 'bytes in a file of the configuration',
    owner: 'none',
    total: 64 * 1_048_576,
    effect: 'The file is rejected. Pipes and devices are rejected, too.',
    code: 'ERR_CONFIG_READ',
  },
  namedFileBytes: {
    unit: 'bytes in a certificate or key that the configuration names, when it is checked',
    owner: 'none',
    total: 16 * 1_048_576,
    effect: 'The check reports the file. It reports pipes and devices, too.',
  },
  parsedTexts: {
    unit: 'characters of large configuration files whose content is in memory',
    owner: 'none',
    total: 1_048_576,
    effect: 'The least recently used file is parsed again.',
  },
});
