/** Profiles of `sdb://`: options of any name whose value is a map with `driver` [salt/utils/sdb.py]. */

import { ConfigError, type ConfigWarning } from './config-error.ts';
import { type MergeStrategy, mergeStrategies } from './merge-strategies.ts';
import {
  absolutePath,
  entriesOf,
  explainItems,
  explainSection,
  flag,
  listOf,
  membersMeant,
  type OptionKind,
  oneOf,
  readSection,
  refuseValue,
  type SectionTable,
  type Setting,
  type Settings,
  sectionProblems,
  text,
  textList,
} from './option-kinds.ts';

/** The drivers that are served. */
export const sdbDrivers = ['env', 'yaml', 'json'] as const;

/** How files of a profile are merged, in their order. */
interface SdbMerge {
  /** `strategy`: as `pillar_source_merging_strategy`. Default `smart`. */
  readonly strategy?: MergeStrategy;
  /** `merge_lists`: lists are joined. Default false. */
  readonly mergeLists?: boolean;
  /** `merge_list`: Salt's documentation calls it so. */
  readonly mergeList?: boolean;
}

/** What an address `sdb://<profile>/<key>` leads to. */
export interface SdbProfile {
  /** `driver`: `env`, `yaml` or `json`; no other one is served. */
  readonly driver: string;
  /** `files`, of `yaml` and `json`: absolute paths. */
  readonly files?: readonly string[];
  /** `merge`, of `yaml` and `json`. */
  readonly merge?: SdbMerge;
  /** `gpg`: values are encrypted, which is not served. Default false. */
  readonly gpg?: boolean;
}

const mergeTable: SectionTable<SdbMerge> = {
  strategy: {
    name: 'strategy',
    kind: oneOf(mergeStrategies),
  },
  mergeLists: { name: 'merge_lists', kind: flag },
  mergeList: { name: 'merge_list', kind: flag },
};

const merge: OptionKind<SdbMerge> = {
  expected: 'a map with strategy and merge_lists',
  isPath: false,
  parse: (value) => readSection(mergeTable, value),
  explain: (setting) => explainSection(mergeTable, setting),
};

/** Files are few: all of them are read for each value. */
const maxFiles = 16;

const files: OptionKind<readonly string[]> = {
  expected: `a list of 1 to ${maxFiles} absolute paths`,
  isPath: false,
  parse: (value) => {
    const list = listOf(textList, absolutePath).parse(value);
    return list !== undefined && list.length > 0 && list.length <= maxFiles ? list : undefined;
  },
  explain: (setting) => explainItems(absolutePath, setting),
};

const table: SectionTable<SdbProfile> = {
  driver: { name: 'driver', kind: text },
  files: { name: 'files', kind: files },
  merge: { name: 'merge', kind: merge },
  gpg: { name: 'gpg', kind: flag },
};

const sdbProfile: OptionKind<SdbProfile> = {
  expected:
    'a profile of sdb: a map with driver (env, yaml or json) and, for yaml and json, files (absolute paths), merge and gpg',
  isPath: false,
  parse: (value) => {
    const { driver, ...rest } = readSection(table, value) ?? {};
    const needsFiles = driver !== 'env';
    if (driver === undefined || needsFiles !== (rest.files !== undefined)) return undefined;
    return { driver, ...rest };
  },
  explain: (setting) => {
    const given = membersMeant(table, setting.value);
    const isEnv = driverOf(setting) === 'env';
    const found = sectionProblems(table, setting, isEnv ? [] : ['files']);
    if (!isEnv || given?.has('files') !== true) return ConfigError.of(found);
    const problem = 'files: the driver env has none';
    return ConfigError.of([...found, new ConfigError('ERR_OPTION_TYPE', setting.origin, problem)]);
  },
};

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
    const profile = isServed(driver) ? sdbProfile.parse(setting.value) : { driver };
    if (profile === undefined) problems.push(...refuseValue(sdbProfile, setting).problems);
    else profiles[name] = profile;
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
  const isEncrypted = sdbProfile.parse(setting.value)?.gpg === true;
  if (isServed(driver) && !isEncrypted) return [];
  const problem = isEncrypted
    ? 'gpg is not served: decrypt its files in the program that writes them'
    : `the driver ${driver} is not served: ${sdbDrivers.join(', ')} are`;
  const { origin } = setting;
  const message = `${origin.file}:${origin.line}: the sdb profile ${name}: ${problem}`;
  return [{ kind: 'not-served', ...origin, message }];
}
