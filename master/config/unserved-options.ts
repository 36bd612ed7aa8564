import { isDeepStrictEqual } from 'node:util';
import {
  type AdviceGroup,
  anyValue,
  minionOptions,
  notNeeded,
  notServed,
  notYet,
} from './advice.ts';
import { warnOfExtPillar } from './ext-pillar.ts';
import {
  completeSettings,
  mainFileOf,
  readConfigFiles,
  warnOfPushedFiles,
  warnOfUnserved,
} from './load.ts';
import { warnOfNarrowed } from './narrowed-patterns.ts';
import {
  ConfigError,
  type ConfigWarning,
  isSettings,
  type Setting,
  type Settings,
  toPlain,
} from './option-kinds.ts';
import type { MasterConfig } from './options.ts';
import { warnOfRights } from './policy-rules.ts';

/** An option of Salt's that has no effect here. */
export interface UnservedOption {
  /** `not-needed`: nothing is lost. */
  readonly kind: 'not-served' | 'not-needed';
  /** What is said of it, to follow its name. */
  readonly message: string;
  /** Whether this value asks for something that is not so here. */
  isLost(setting: Setting): boolean;
}

const always = (): boolean => true;

const unserved: ReadonlyMap<string, UnservedOption> = new Map([
  ...rows(notServed, 'not-served', 'is not served'),
  ...rows(notYet, 'not-served', 'is not served yet'),
  ...rows(notNeeded, 'not-needed', 'has no effect'),
  ...minionOptions.map((name): [string, UnservedOption] => [
    name,
    { kind: 'not-needed', message: 'is an option of minions; no master reads it', isLost: always },
  ]),
]);

/** Options of returners and the like, which are named `<module>.<option>`. */
const ofModules: UnservedOption = {
  kind: 'not-served',
  message: 'belongs to a Python module (a returner, a cache, a pillar), and those do not run here',
  isLost: always,
};

/** What is to be said of an option of Salt's that is not served; `undefined`: Salt has none such. */
export function findUnserved(name: string): UnservedOption | undefined {
  return unserved.get(name) ?? (/^[a-z_0-9]+\.[a-z_0-9.]+$/.test(name) ? ofModules : undefined);
}

/** The names of all. */
export function unservedNames(): readonly string[] {
  return [...unserved.keys()];
}

function* rows(
  groups: readonly AdviceGroup[],
  kind: UnservedOption['kind'],
  fate: string,
): Generator<[name: string, option: UnservedOption]> {
  for (const { advice, options } of groups) {
    for (const [name, usual] of Object.entries(options)) {
      const isLost = ({ value }: Setting): boolean =>
        value !== null && (usual === anyValue || !isDeepStrictEqual(plain(value), usual));
      yield [name, { kind, message: `${fate}: ${advice}`, isLost }];
    }
  }
}

/** With the prototypes of literals, which comparing looks at. */
function plain(value: unknown): unknown {
  return structuredClone(toPlain(value));
}

// A configuration looked at as a whole, for reports: what is wrong with it is told, all of it.

/** What {@link surveyMasterConfig} found. */
export interface ConfigSurvey {
  /** What can be used; defaults stand for the rest. */
  readonly config: MasterConfig;
  /** Every option at the top of a file, as it was given. */
  readonly settings: Settings;
  /** Files that were read, in the order of reading. */
  readonly files: readonly string[];
  readonly warnings: readonly ConfigWarning[];
  /** What would keep a master from starting. */
  readonly problems: readonly ConfigError[];
}

/** Reads what `loadMasterConfig` reads, and goes on behind what that refuses. Never throws. */
export async function surveyMasterConfig(directory: string): Promise<ConfigSurvey> {
  const mainFile = mainFileOf(directory);
  const problems: ConfigError[] = [];
  const { settings, files, warnings } = await readConfigFiles(mainFile, (it) => problems.push(it));
  const config = completeWhatCan(settings, mainFile, problems);
  return {
    config,
    settings,
    files,
    warnings: [
      ...warnings,
      ...warnOfUnserved(settings),
      ...warnOfExtPillar(settings),
      ...warnOfNarrowed(config, settings),
      ...warnOfRights(config, settings),
      ...warnOfPushedFiles(config, settings),
    ],
    problems,
  };
}

/** Leaves out one refused option after the other. */
function completeWhatCan(
  settings: Settings,
  mainFile: string,
  problems: ConfigError[],
): MasterConfig {
  const usable = structuredClone(settings);
  for (;;) {
    try {
      return completeSettings(usable, mainFile);
    } catch (error) {
      if (!(error instanceof ConfigError) || usable.size === 0) throw error;
      problems.push(error);
      // Where the culprit cannot be found, no option is better than none of the report.
      if (!leaveOut(usable, error.key.split(':'))) usable.clear();
    }
  }
}

function leaveOut(settings: Settings, key: readonly string[]): boolean {
  const [name = '', ...rest] = key;
  const inner = settings.get(name)?.value;
  if (rest.length > 0 && isSettings(inner)) return leaveOut(inner, rest);
  return settings.delete(name);
}
