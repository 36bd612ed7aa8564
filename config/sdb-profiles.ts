/** Profiles of `sdb://`: options of any name whose value is a map with `driver` [salt/utils/sdb.py]. */

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

/** The drivers that are served. */
export const sdbDrivers = ['env', 'yaml', 'json'] as const;

const merge = section(
  {
    strategy: optional(
      oneOf(mergeStrategies, { description: 'As `pillar_source_merging_strategy`.' }),
    ),
    mergeLists: optional(flag({ description: 'Whether lists are joined.' })),
    // Salt's documentation has this name.
    mergeList: optional(flag({ description: 'The same.' })),
  },
  { expected: 'a map with strategy and merge_lists' },
);

/** Files are few: all of them are read for each value. */
const maxFiles = 16;

const profileSection = section(
  {
    driver: text({ description: '`env`, `yaml` or `json`; no other one is served.' }),
    files: optional(
      list(absolutePath(), {
        minItems: 1,
        maxItems: maxFiles,
        expected: `a list of 1 to ${maxFiles} absolute paths`,
        description: 'Files of `yaml` and `json`.',
      }),
    ),
    merge: optional(merge),
    gpg: optional(flag({ description: 'Whether values are encrypted, which is not served.' })),
  },
  {
    expected:
      'a profile of sdb: a map with driver (env, yaml or json) and, for yaml and json, files (absolute paths), merge and gpg',
    check: ({ origin, values, meant }) => {
      const isEnv = values.driver === 'env';
      if (isEnv !== meant.has('files')) return [];
      const problem = isEnv ? 'files: the driver env has none' : 'files must be set';
      return [new ConfigError('ERR_OPTION_TYPE', origin, problem)];
    },
  },
);

/** The target of an address `sdb://<profile>/<key>`. */
export type SdbProfile = Static<typeof profileSection>;

/** The driver that an option names; `undefined`: it is no profile. */
function driverOf({ value }: Setting): string | undefined {
  const driver = entriesOf(value)?.find(([name]) => name === 'driver')?.[1];
  return typeof driver === 'string' ? driver : undefined;
}

function isServed(driver: string): boolean {
  return sdbDrivers.some((known) => known === driver);
}

/**
 * The profiles by their names, and what is wrong with the others.
 * @param isOption whether an option of the name is something else
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
    // What options it has is its driver's to say.
    const read = isServed(driver) ? readSetting(profileSection, setting) : { value: { driver } };
    if (read.problems === undefined) profiles[name] = read.value;
    else problems.push(...read.problems);
  }
  return { profiles: Object.freeze(profiles), problems };
}

/** What a profile promises in vain; `undefined`: the option is none. */
export function warnOfSdbProfile(
  name: string,
  setting: Setting,
): readonly ConfigWarning[] | undefined {
  const driver = driverOf(setting);
  if (driver === undefined) return undefined;
  const isEncrypted = parseValue(profileSection, setting.value)?.gpg === true;
  if (isServed(driver) && !isEncrypted) return [];
  const problem = isEncrypted
    ? 'gpg is not served: decrypt its files in the program that writes them'
    : `the driver ${driver} is not served: ${sdbDrivers.join(', ')} are`;
  const { origin } = setting;
  const message = `${origin.file}:${origin.line}: the sdb profile ${name}: ${problem}`;
  return [{ kind: 'not-served', ...origin, message }];
}
