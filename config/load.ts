import path from 'node:path';
import { ConfigError, type ConfigWarning, type OptionOrigin, proposeName } from './config-error.ts';
import { warnOfExtPillar } from './ext-pillar.ts';
import { warnOfBackends } from './external-auth.ts';
import { warnOfFileBackends } from './fileserver-backend.ts';
import { warnOfGrainRights } from './grain-rights.ts';
import { loginOptions } from './login-options.ts';
import { warnOfNarrowed } from './narrowed-patterns.ts';
import { warnOfNodegroups } from './nodegroup-warnings.ts';
import { type MasterConfig, namesIn } from './options.ts';
import { ownOptions } from './own-options.ts';
import { warnOfReactorTags } from './reactor-tags.ts';
import { readConfigDirectory } from './read-config.ts';
import { rightsOptions, saltOptions } from './salt-options.ts';
import { warnOfSchedule } from './schedule.ts';
import { warnOfSdbProfile } from './sdb-profiles.ts';
import type { Settings } from './settings.ts';
import { findUnserved, unservedNames } from './unserved-options.ts';
import { warnOfRights } from './user-rights.ts';

export interface LoadedConfig {
  readonly config: MasterConfig;
  readonly warnings: readonly ConfigWarning[];
  /** Files in the order of reading. */
  readonly files: readonly string[];
}

/** Options that programs other than Salt read from the master's configuration file. */
const ofOtherPrograms = /^saltgui_/;

/** Top-level options that are supported. */
export const servedOptions: ReadonlySet<string> = new Set([
  ...namesIn(saltOptions),
  ...namesIn(rightsOptions),
  ...namesIn(loginOptions),
  'saltbridge',
  'include',
  'default_include',
]);

const ownNames: ReadonlySet<string> = new Set([...namesIn(ownOptions), 'limits', 'acl']);

/** Configuration as read from files, with all mistakes. */
export interface CheckedConfig extends LoadedConfig {
  /** Top-level options of the files, as written. */
  readonly settings: Settings;
  /** Mistakes that prevent a start. `config` has the default of each invalid option. */
  readonly problems: readonly ConfigError[];
}

/**
 * Reads Salt's master configuration from a directory such as `/etc/salt`. Returns all mistakes and
 * warnings instead of throwing.
 */
export async function checkMasterConfig(directory: string): Promise<CheckedConfig> {
  const { warnings, ...read } = await readConfigDirectory(directory);
  const { config, settings } = read;
  const more = [
    ...warnOfUnserved(settings),
    ...warnOfExtPillar(settings),
    ...warnOfFileBackends(settings),
    ...warnOfSchedule(settings),
    ...warnOfValues(config, settings),
    ...warnOfNarrowed(config, settings),
    ...warnOfNodegroups(config, settings),
    ...warnOfRights(config, settings),
    ...warnOfGrainRights(config, settings),
    ...warnOfBackends(config, settings),
    ...warnOfReactorTags(config, settings),
    ...warnOfPushedFiles(config, settings),
  ];
  return { ...read, warnings: [...warnings, ...more] };
}

/**
 * Reads Salt's master configuration from a directory such as `/etc/salt`: the file `master` and the
 * files that it includes. A missing main file, unsupported options of Salt and unknown options only
 * cause warnings. Everything under `saltbridge:` is validated.
 * @throws ConfigError with all mistakes, see {@link configErrors}
 */
export async function loadMasterConfig(directory: string): Promise<LoadedConfig> {
  const { config, warnings, files, problems } = await checkMasterConfig(directory);
  const mistake = ConfigError.of(problems);
  if (mistake !== undefined) throw mistake;
  return { config, warnings, files };
}

/** Returns all options of Salt's master, supported or not. */
function knownNames(): string[] {
  return [...servedOptions, ...unservedNames()];
}

/** Returns a warning for each option that has no effect. */
function warnOfUnserved(settings: Settings): ConfigWarning[] {
  return [...settings].flatMap(([name, setting]) => {
    if (servedOptions.has(name) || ofOtherPrograms.test(name)) return [];
    const ofProfile = warnOfSdbProfile(name, setting);
    if (ofProfile !== undefined) return ofProfile;
    const unserved = findUnserved(name);
    if (unserved?.isLost(setting) === false) return [];
    if (unserved !== undefined) {
      return [warning(unserved.kind, setting.origin, `${name} ${unserved.message}`)];
    }
    const proposal = ownNames.has(name)
      ? 'it belongs under saltbridge:'
      : proposeName(name, knownNames());
    const advice = proposal === undefined ? '' : `; ${proposal}`;
    const text = `${name} is not an option of a master${advice}`;
    return [warning('unknown-option', setting.origin, text)];
  });
}

/**
 * Returns a warning for each value that this master does not support, although it supports the
 * option.
 */
function warnOfValues(
  { cluster, jobCache, logFile }: MasterConfig,
  settings: Settings,
): ConfigWarning[] {
  const warnings: ConfigWarning[] = [];
  const jobCacheSetting = settings.get('job_cache');
  if (jobCacheSetting !== undefined && !jobCache && cluster !== null) {
    const text =
      'job_cache: false has no effect in a cluster: members store jobs, because another member may receive their returns';
    warnings.push(warning('bounded', jobCacheSetting.origin, text));
  }
  const logFileSetting = settings.get('log_file');
  if (logFileSetting !== undefined && !path.isAbsolute(logFile)) {
    const advice = 'set a file, or let the service manager store standard error';
    const text = `log_file names a log service instead of a file: ${advice}`;
    warnings.push(warning('not-served', logFileSetting.origin, text));
  }
  return warnings;
}

/**
 * Returns a warning if the maximum size of one file of `cp.push` exceeds the limit for all files of
 * a minion.
 */
function warnOfPushedFiles(
  { acl, confFile, fileRecv, fileRecvMaxSize, limits }: MasterConfig,
  settings: Settings,
): ConfigWarning[] {
  const isOn = fileRecv || acl.rules.some(({ action }) => action === 'file-send');
  const { pushedBytes } = limits;
  if (!isOn || pushedBytes === 0 || fileRecvMaxSize * 1_048_576 <= pushedBytes) return [];
  const setting = settings.get('file_recv_max_size') ?? settings.get('file_recv');
  const origin = setting?.origin ?? { file: confFile, line: 0, key: 'file_recv_max_size' };
  const text = `file_recv_max_size (${fileRecvMaxSize} MiB) exceeds the limit for all pushed files of a minion (${pushedBytes} bytes): raise saltbridge: limits: pushed_bytes, or lower file_recv_max_size`;
  return [warning('bounded', origin, text)];
}

function warning(kind: ConfigWarning['kind'], origin: OptionOrigin, text: string): ConfigWarning {
  return { kind, ...origin, message: `${origin.file}:${origin.line}: ${text}` };
}
