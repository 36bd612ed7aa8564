/** The configuration that files make, and every mistake in them. */

import type { ConfigWarning } from './config-error.ts';
import { ConfigError, typeError, unknownOption } from './config-error.ts';
import {
  type GivenOptions,
  isSettings,
  keepItems,
  type Setting,
  type Settings,
} from './option-kinds.ts';
import { aclOptions, limitOptions, namesOf, ownOptions } from './option-table.ts';
import type { MasterConfig } from './options.ts';
import { mainFileOf, readConfigFiles } from './read-files.ts';
import { completeConfig } from './resolve.ts';

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

/** More mistakes than anybody reads at once; the rest is told when these are corrected. */
const maxProblems = 200;

/** Reads the files of a configuration directory, and goes on behind each mistake. */
export async function readConfigDirectory(directory: string): Promise<ReadConfig> {
  const mainFile = mainFileOf(directory);
  const problems: ConfigError[] = [];
  const read = await readConfigFiles(mainFile, (it) => problems.push(it));
  const config = completeWhatCan(read.settings, mainFile, problems);
  return { ...read, config, problems };
}

/** Leaves out what is refused, until nothing is. */
function completeWhatCan(
  settings: Settings,
  mainFile: string,
  problems: ConfigError[],
): MasterConfig {
  const usable = copyOf(settings);
  const leftOut: string[] = [];
  for (;;) {
    try {
      return completeSettings(usable, mainFile);
    } catch (error) {
      if (!(error instanceof ConfigError) || usable.size === 0) throw error;
      if (!leftOut.some((place) => mayFollow(error, place))) problems.push(...error.problems);
      const culprits = new Map(error.problems.map((it) => [culpritOf(it), it]));
      for (const [place, culprit] of culprits) {
        leftOut.push(place);
        // Where the culprit cannot be found, no option is better than none of the report.
        if (!leaveOut(usable, culprit.key.split(':'), culprit)) usable.clear();
      }
      if (problems.length >= maxProblems) usable.clear();
    }
  }
}

/** Maps are copied, from which something may be left out. */
function copyOf(settings: Settings): Settings {
  const copies = Array.from(settings, ([name, setting]): [string, Setting] => {
    const { value } = setting;
    return [name, isSettings(value) ? { ...setting, value: copyOf(value) } : setting];
  });
  return new Map(copies);
}

/** What is left out for a mistake: an option, or an entry of one that is a list. */
function culpritOf({ file, key, entry }: ConfigError): string {
  return entry === undefined ? key : `${key}${indexOf(entry)} ${file}`;
}

/** `[1]` of `[1]:user`. */
function indexOf(entry: string): string {
  return entry.replace(/(?<=^\[\d+\]).*/s, '');
}

const ports: ReadonlySet<string> = new Set(['publish_port', 'ret_port', 'transport_opts']);

/** Whether a mistake may be there only because what another key says was left out. */
function mayFollow({ code, key, entry }: ConfigError, leftOut: string): boolean {
  if (leftOut.startsWith(`${key}:`)) return true;
  if (entry === undefined && leftOut.startsWith(`${key}[`)) return true;
  if (key === 'open_mode') return leftOut === 'saltbridge:confirm_open_mode';
  const isConflict = code === 'ERR_OPTION_CONFLICT';
  return isConflict && ports.has(key) && ports.has(leftOut.replace(/:.*/s, ''));
}

/** Takes out what a key names, the entry of its list, or the nearest thing above it. */
function leaveOut(
  settings: Settings,
  [name = '', ...rest]: readonly string[],
  place: ConfigError,
): boolean {
  const setting = settings.get(name);
  const inner = setting?.value;
  if (rest.length > 0 && isSettings(inner) && leaveOut(inner, rest, place)) return true;
  const { file, entry } = place;
  if (rest.length === 0 && setting !== undefined && entry !== undefined) {
    const isOther = ({ origin }: Setting): boolean =>
      origin.file !== file || origin.entry !== indexOf(entry);
    const shorter = keepItems(setting, isOther);
    if (shorter !== undefined) {
      settings.set(name, shorter);
      return true;
    }
  }
  return settings.delete(name);
}

/** A checked configuration of what files say. @throws ConfigError, see {@link configErrors} */
export function completeSettings(settings: Settings, mainFile: string): MasterConfig {
  const origin = { file: mainFile, line: 0, key: 'conf_file' };
  return completeConfig(
    sortByTable(new Map(settings).set('conf_file', { value: mainFile, origin })),
  );
}

function sortByTable(settings: Settings): GivenOptions {
  const own = section(settings.get('saltbridge'));
  const limits = section(own.get('limits'));
  const acl = section(own.get('acl'));
  refuseUnknown(own, [...namesOf(ownOptions), 'limits', 'acl']);
  refuseUnknown(limits, namesOf(limitOptions));
  refuseUnknown(acl, namesOf(aclOptions));
  return { salt: settings, own, limits, acl };
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
