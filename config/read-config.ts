/** Reads a configuration from files and collects all mistakes in them. */

import path from 'node:path';
import type { ConfigWarning } from './config-error.ts';
import { type ConfigError, typeError, unknownOption } from './config-error.ts';
import { type MasterConfig, namesIn } from './options.ts';
import { aclOptions, limitOptions, ownOptions } from './own-options.ts';
import { mainFileOf, readConfigFiles } from './read-files.ts';
import { type CompletedConfig, completeConfig } from './resolve.ts';
import { isSettings, type Settings } from './settings.ts';

/** Configuration of a directory, with the mistakes in it. */
export interface ReadConfig {
  /** Configuration. Each invalid option has its default. */
  readonly config: MasterConfig;
  /** Top-level options of the files, as written. */
  readonly settings: Settings;
  /** Files in the order of reading. */
  readonly files: readonly string[];
  /** Warnings about files, for example about a missing file. */
  readonly warnings: readonly ConfigWarning[];
  /** Mistakes that prevent a start. */
  readonly problems: readonly ConfigError[];
}

/**
 * Reads the files of a configuration directory. After a mistake, it continues with the remaining
 * options.
 */
export async function readConfigDirectory(directory: string): Promise<ReadConfig> {
  const mainFile = mainFileOf(directory);
  const ofFiles: ConfigError[] = [];
  const read = await readConfigFiles(mainFile, { onProblem: (it) => ofFiles.push(it) });
  const { config, problems } = completeSettings(read.settings, mainFile);
  return { ...read, config, problems: [...ofFiles, ...problems] };
}

/** Options in the files of a configuration directory, before they are validated. */
export interface ReadOptions {
  /** Top-level options of the files, as written. */
  readonly settings: Settings;
  /** Mistakes in the form of the files. */
  readonly problems: readonly ConfigError[];
}

/**
 * Reads the options in a configuration directory without validating them.
 * @param name - name that replaces the path of the directory in the locations of the options.
 * Directories with equal files and the same `name` share the parsed contents of large files
 */
export async function readOptions(directory: string, name: string): Promise<ReadOptions> {
  const problems: ConfigError[] = [];
  const { settings } = await readConfigFiles(mainFileOf(directory), {
    onProblem: (it) => problems.push(it),
    nameOf: (file) => path.join(name, path.relative(path.resolve(directory), file)),
  });
  return { settings, problems };
}

/** Returns a complete configuration from the options in files, with all mistakes. */
export function completeSettings(settings: Settings, mainFile: string): CompletedConfig {
  const origin = { file: mainFile, line: 0, key: 'conf_file' };
  const salt = new Map(settings).set('conf_file', { value: mainFile, origin });
  const mistakes: ConfigError[] = [];
  const own = section(salt, 'saltbridge', mistakes);
  const limits = section(own, 'limits', mistakes);
  const acl = section(own, 'acl', mistakes);
  mistakes.push(
    ...unknownNames(own, [...namesIn(ownOptions), 'limits', 'acl']),
    ...unknownNames(limits, namesIn(limitOptions)),
    ...unknownNames(acl, namesIn(aclOptions)),
  );
  const { config, problems } = completeConfig({ salt, own, limits, acl });
  return { config, problems: [...mistakes, ...problems] };
}

/**
 * Returns the value of an option that is a map. For another type, records a mistake and returns an
 * empty map.
 */
function section(settings: Settings, name: string, mistakes: ConfigError[]): Settings {
  const setting = settings.get(name);
  if (setting === undefined || setting.value === null) return new Map();
  if (isSettings(setting.value)) return setting.value;
  mistakes.push(typeError(setting.origin, setting.value, 'a map'));
  return new Map();
}

function unknownNames(settings: Settings, known: readonly string[]): readonly ConfigError[] {
  return [...settings]
    .filter(([name]) => !known.includes(name))
    .map(([, { origin }]) => unknownOption(origin, known));
}
