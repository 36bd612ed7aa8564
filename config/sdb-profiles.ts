/**
 * Profiles of `sdb://`: options with any name and a map with `driver` as the value
 * [salt/utils/sdb.py].
 */

import type { Static } from 'typebox';
import { ConfigError, type ConfigWarning } from './config-error.ts';
import { mergeStrategies } from './merge-strategies.ts';
import {
  absolutePath,
  flag,
  list,
  oneOf,
  optional,
  parseValue,
  readSetting,
  section,
  text,
} from './schema.ts';
import { entriesOf, type Setting, type Settings } from './settings.ts';

/** Drivers that are supported. */
export const sdbDrivers = ['env', 'yaml', 'json'] as const;

const merge = section(
  {
    strategy: optional(
      oneOf(mergeStrategies, { description: 'As `pillar_source_merging_strategy`.' }),
    ),
    mergeLists: optional(flag({ description: 'Whether lists are joined.' })),
    // Spelling of the option in Salt's documentation.
    mergeList: optional(flag({ description: 'The same.' })),
  },
  { expected: 'a map with strategy and merge_lists' },
);

/** Maximum number of files in a profile. All of them are read for each value. */
const maxFiles = 16;

const profileSection = section(
  {
    driver: text({ description: '`env`, `yaml` or `json`. Other drivers are not supported.' }),
    files: optional(
      list(absolutePath(), {
        minItems: 1,
        maxItems: maxFiles,
        expected: `a list of 1 to ${maxFiles} absolute paths`,
        description: 'Files of `yaml` and `json`.',
      }),
    ),
    merge: optional(merge),
    gpg: optional(flag({ description: 'Whether values are encrypted, which is not supported.' })),
  },
  {
    expected:
      'an sdb profile: a map with driver (env, yaml or json) and, for yaml and json, files (absolute paths), merge and gpg',
    check: ({ origin, values, meant }) => {
      const isEnv = values.driver === 'env';
      if (isEnv !== meant.has('files')) return [];
      const problem = isEnv
        ? 'files: the driver `env` does not read files; remove the option `files`'
        : 'files must be set';
      return [new ConfigError('ERR_OPTION_TYPE', origin, problem)];
    },
  },
);

/** Profile for addresses `sdb://<profile>/<key>`. */
export type SdbProfile = Static<typeof profileSection>;

/** Returns the driver of a profile, or `undefined` if the option is not a profile. */
function driverOf({ value }: Setting): string | undefined {
  const driver = entriesOf(value)?.find(([name]) => name === 'driver')?.[1];
  return typeof driver === 'string' ? driver : undefined;
}

function isServed(driver: string): boolean {
  return sdbDrivers.some((known) => known === driver);
}

/**
 * Returns the valid profiles by name, and the problems of the invalid profiles.
 * @param isOption - whether a name belongs to a known option
 */
export function readSdbProfiles(
  settings: Settings,
  isOption: (name: string) => boolean,
): {
  readonly profiles: Readonly<Record<string, SdbProfile>>;
  readonly problems: readonly ConfigError[];
} {
  const profiles: Record<string, SdbProfile> = Object.create(null);
  const problems: ConfigError[] = [];
  for (const [name, setting] of settings) {
    const driver = isOption(name) ? undefined : driverOf(setting);
    if (driver === undefined) continue;
    // The driver determines which settings are valid.
    const read = isServed(driver) ? readSetting(profileSection, setting) : { value: { driver } };
    if (read.problems === undefined) profiles[name] = read.value;
    else problems.push(...read.problems);
  }
  return { profiles: Object.freeze(profiles), problems };
}

/**
 * Returns a warning for each setting without effect in a profile. Returns `undefined` if the option
 * is not a profile.
 */
export function warnOfSdbProfile(
  name: string,
  setting: Setting,
): readonly ConfigWarning[] | undefined {
  const driver = driverOf(setting);
  if (driver === undefined) return undefined;
  const isEncrypted = parseValue(profileSection, setting.value)?.gpg === true;
  if (isServed(driver) && !isEncrypted) return [];
  const problem = isEncrypted
    ? 'gpg is not supported: decrypt its files in the program that writes them'
    : `the driver ${driver} is not supported; supported drivers: ${sdbDrivers.join(', ')}`;
  const { origin } = setting;
  const message = `${origin.file}:${origin.line}: the sdb profile ${name}: ${problem}`;
  return [{ kind: 'not-served', ...origin, message }];
}
