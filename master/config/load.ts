import path from 'node:path';
import { completeConfig } from './complete.ts';
import { limitOptions, type OptionTable, ownOptions, saltOptions } from './option-table.ts';
import type { MasterConfig } from './options.ts';
import { readConfigFiles } from './read-files.ts';
import { typeError, unknownOption } from './refusals.ts';
import { type GivenOptions, isSettings, type Setting, type Settings } from './settings.ts';
import { isUnservedOption } from './unserved-options.ts';
import type { ConfigWarning } from './warnings.ts';

/** What {@link loadMasterConfig} found. */
export interface LoadedConfig {
  readonly config: MasterConfig;
  readonly warnings: readonly ConfigWarning[];
  /** Every file that was read, in the order of reading. */
  readonly files: readonly string[];
}

const saltNames: ReadonlySet<string> = new Set(namesOf(saltOptions));

/**
 * Reads Salt's master configuration from a directory such as `/etc/salt`: the file `master` and
 * what it includes. A missing main file is a warning; options that Salt has and this master does
 * not, and options that nobody has, are warnings; what stands under `saltbridge:` is checked.
 * @throws ConfigError, see {@link configErrors}
 */
export async function loadMasterConfig(directory: string): Promise<LoadedConfig> {
  const mainFile = path.resolve(directory, 'master');
  const { settings, files, warnings } = await readConfigFiles(mainFile);
  const origin = { file: mainFile, line: 0, key: 'conf_file' };
  settings.set('conf_file', { value: mainFile, origin });
  const config = completeConfig(sortByTable(settings));
  return { config, warnings: [...warnings, ...warnOfUnserved(settings)], files };
}

function sortByTable(settings: Settings): GivenOptions {
  const own = section(settings.get('saltbridge'));
  const limits = section(own.get('limits'));
  refuseUnknown(own, [...namesOf(ownOptions), 'limits']);
  refuseUnknown(limits, namesOf(limitOptions));
  return { salt: settings, own, limits };
}

function section(setting: Setting | undefined): Settings {
  if (setting === undefined || setting.value === null) return new Map();
  if (isSettings(setting.value)) return setting.value;
  throw typeError(setting.origin, setting.value, 'a map');
}

function refuseUnknown(settings: Settings, known: readonly string[]): void {
  for (const [name, { origin }] of settings) {
    if (!known.includes(name)) throw unknownOption(origin, known);
  }
}

function warnOfUnserved(settings: Settings): ConfigWarning[] {
  const served = new Set([...saltNames, 'saltbridge', 'include', 'default_include']);
  return [...settings]
    .filter(([name]) => !served.has(name))
    .map(([name, { origin }]) => {
      const isSalts = isUnservedOption(name);
      const kind = isSalts ? 'not-served' : 'unknown-option';
      const what = isSalts ? 'is not served yet' : 'is not an option of a master';
      return { kind, ...origin, message: `${origin.file}:${origin.line}: ${name} ${what}` };
    });
}

function namesOf<T extends object>(table: OptionTable<T>): string[] {
  const names: string[] = [];
  for (const member in table) names.push(table[member].name);
  return names;
}
