import path from 'node:path';
import { warnOfExtPillar } from './ext-pillar.ts';
import { warnOfBackends } from './external-auth.ts';
import { warnOfFileBackends } from './fileserver-backend.ts';
import { warnOfNarrowed } from './narrowed-patterns.ts';
import {
  type ConfigWarning,
  type GivenOptions,
  isSettings,
  type OptionOrigin,
  type Setting,
  type Settings,
  typeError,
  unknownOption,
} from './option-kinds.ts';
import {
  aclOptions,
  eauthOptions,
  limitOptions,
  type OptionTable,
  ownOptions,
  rightsOptions,
  saltOptions,
} from './option-table.ts';
import type { MasterConfig } from './options.ts';
import { mainFileOf, readConfigFiles } from './read-files.ts';
import { completeConfig } from './resolve.ts';
import { warnOfSchedule } from './schedule.ts';
import { warnOfReactorTags } from './signal-plan.ts';
import { findUnserved } from './unserved-options.ts';
import { warnOfRights } from './user-rights.ts';

export interface LoadedConfig {
  readonly config: MasterConfig;
  readonly warnings: readonly ConfigWarning[];
  /** Every file that was read, in the order of reading. */
  readonly files: readonly string[];
}

/** Options that programs beside Salt keep in the master's file. */
const ofOtherPrograms = /^saltgui_/;

const servedNames: ReadonlySet<string> = new Set([
  ...namesOf(saltOptions),
  ...namesOf(rightsOptions),
  ...namesOf(eauthOptions),
  'saltbridge',
  'include',
  'default_include',
]);

/**
 * Reads Salt's master configuration from a directory such as `/etc/salt`: the file `master` and
 * what it includes. A missing main file is a warning; options that Salt has and this master does
 * not, and options that nobody has, are warnings; what stands under `saltbridge:` is checked.
 * @throws ConfigError, see {@link configErrors}
 */
export async function loadMasterConfig(directory: string): Promise<LoadedConfig> {
  const mainFile = mainFileOf(directory);
  const { settings, files, warnings } = await readConfigFiles(mainFile);
  const config = completeSettings(settings, mainFile);
  const more = [
    ...warnOfUnserved(settings),
    ...warnOfExtPillar(settings),
    ...warnOfFileBackends(settings),
    ...warnOfSchedule(settings),
    ...warnOfValues(config, settings),
    ...warnOfNarrowed(config, settings),
    ...warnOfRights(config, settings),
    ...warnOfBackends(config, settings),
    ...warnOfReactorTags(config, settings),
    ...warnOfPushedFiles(config, settings),
  ];
  return { config, warnings: [...warnings, ...more], files };
}

/** A checked configuration of what files say. @throws ConfigError, see {@link configErrors} */
export function completeSettings(settings: Settings, mainFile: string): MasterConfig {
  const origin = { file: mainFile, line: 0, key: 'conf_file' };
  return completeConfig(
    sortByTable(new Map(settings).set('conf_file', { value: mainFile, origin })),
  );
}

/** What a name at the top of a file means to this master. */
export function optionStatus(name: string): 'served' | 'not-served' | 'not-needed' | 'unknown' {
  if (servedNames.has(name)) return 'served';
  return findUnserved(name)?.kind ?? 'unknown';
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

/** Options that have no effect here. */
export function warnOfUnserved(settings: Settings): ConfigWarning[] {
  return [...settings].flatMap(([name, setting]) => {
    if (servedNames.has(name) || ofOtherPrograms.test(name)) return [];
    const unserved = findUnserved(name);
    if (unserved?.isLost(setting) === false) return [];
    const { kind = 'unknown-option', message = 'is not an option of a master' } = unserved ?? {};
    return [warning(kind, setting.origin, `${name} ${message}`)];
  });
}

/** Values of options that are served, but not all of them. */
function warnOfValues({ logFile }: MasterConfig, settings: Settings): ConfigWarning[] {
  const setting = settings.get('log_file');
  if (setting === undefined || path.isAbsolute(logFile)) return [];
  const advice = 'name a file, or let the service manager keep what goes to standard error';
  return [
    warning(
      'not-served',
      setting.origin,
      `log_file leads to a log service, not to a file: ${advice}`,
    ),
  ];
}

/** A file that `cp.push` may send and that does not fit into what its minion may have here. */
export function warnOfPushedFiles(
  { acl, confFile, fileRecv, fileRecvMaxSize, limits }: MasterConfig,
  settings: Settings,
): ConfigWarning[] {
  const isOn = fileRecv || acl.rules.some(({ action }) => action === 'file-send');
  const { pushedBytes } = limits;
  if (!isOn || pushedBytes === 0 || fileRecvMaxSize * 1_048_576 <= pushedBytes) return [];
  const setting = settings.get('file_recv_max_size') ?? settings.get('file_recv');
  const origin = setting?.origin ?? { file: confFile, line: 0, key: 'file_recv_max_size' };
  const text = `file_recv_max_size (${fileRecvMaxSize} MiB) is more than all pushed files of a minion may have (${pushedBytes} bytes): raise saltbridge: limits: pushed_bytes, or lower it`;
  return [warning('bounded', origin, text)];
}

function warning(kind: ConfigWarning['kind'], origin: OptionOrigin, text: string): ConfigWarning {
  return { kind, ...origin, message: `${origin.file}:${origin.line}: ${text}` };
}

function namesOf<T extends object>(table: OptionTable<T>): string[] {
  const names: string[] = [];
  for (const member in table) names.push(table[member].name);
  return names;
}
