/** The configuration that files make, and every mistake in them. */

import type { ConfigWarning } from './config-error.ts';
import { type ConfigError, typeError, unknownOption } from './config-error.ts';
import { type MasterConfig, namesIn } from './options.ts';
import { aclOptions, limitOptions, ownOptions } from './own-options.ts';
import { mainFileOf, readConfigFiles } from './read-files.ts';
import { type CompletedConfig, completeConfig } from './resolve.ts';
import { isSettings, type Settings } from './settings.ts';

/** What the files of a directory say. */
export interface ReadConfig {
  /** What can be used; defaults stand for the rest. */
  readonly config: MasterConfig;
  /** Every option at the top of a file, as it was given. */
  readonly settings: Settings;
  /** Files that were read, in the order of reading. */
  readonly files: readonly string[];
  /** Of the files themselves. */
  readonly warnings: readonly ConfigWarning[];
  /** What keeps a master from starting. */
  readonly problems: readonly ConfigError[];
}

/** Reads the files of a configuration directory, and goes on behind each mistake. */
export async function readConfigDirectory(directory: string): Promise<ReadConfig> {
  const mainFile = mainFileOf(directory);
  const ofFiles: ConfigError[] = [];
  const read = await readConfigFiles(mainFile, (it) => ofFiles.push(it));
  const { config, problems } = completeSettings(read.settings, mainFile);
  return { ...read, config, problems: [...ofFiles, ...problems] };
}

/** A checked configuration of what files say, and all that is wrong with it. */
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

/** The map that an option is; an empty one where it is none. */
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
