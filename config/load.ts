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
  /** Every file that was read, in the order of reading. */
  readonly files: readonly string[];
}

/** Options that programs beside Salt keep in the master's file. */
const ofOtherPrograms = /^saltgui_/;

const servedNames: ReadonlySet<string> = new Set([
  ...namesIn(saltOptions),
  ...namesIn(rightsOptions),
  ...namesIn(loginOptions),
  'saltbridge',
  'include',
  'default_include',
]);

const ownNames: ReadonlySet<string> = new Set([...namesIn(ownOptions), 'limits', 'acl']);

/** A configuration that was read, whatever is wrong with it. */
export interface CheckedConfig extends LoadedConfig {
  /** Every option at the top of a file, as it was given. */
  readonly settings: Settings;
  /** What keeps a master from starting. Where there is any, defaults stand for it in `config`. */
  readonly problems: readonly ConfigError[];
}

/** Reads what {@link loadMasterConfig} reads, and reports all mistakes and warnings. */
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
 * Reads Salt's master configuration from a directory such as `/etc/salt`: the file `master` and
 * what it includes. A missing main file is a warning; options that Salt has and this master does
 * not, and options that nobody has, are warnings; what stands under `saltbridge:` is checked.
 * @throws ConfigError with all mistakes, see {@link configErrors}
 */
export async function loadMasterConfig(directory: string): Promise<LoadedConfig> {
  const { config, warnings, files, problems } = await checkMasterConfig(directory);
  const mistake = ConfigError.of(problems);
  if (mistake !== undefined) throw mistake;
  return { config, warnings, files };
}

/** Whether an option at the top of a file is served. */
export function isServedOption(name: string): boolean {
  return servedNames.has(name);
}

/** All options that a master of Salt's has, served or not. */
function knownNames(): string[] {
  return [...servedNames, ...unservedNames()];
}

/** Options that have no effect here. */
function warnOfUnserved(settings: Settings): ConfigWarning[] {
  return [...settings].flatMap(([name, setting]) => {
    if (servedNames.has(name) || ofOtherPrograms.test(name)) return [];
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

/** Values of options that are served, but not all of them. */
function warnOfValues(
  { cluster, jobCache, logFile }: MasterConfig,
  settings: Settings,
): ConfigWarning[] {
  const warnings: ConfigWarning[] = [];
  const jobCacheSetting = settings.get('job_cache');
  if (jobCacheSetting !== undefined && !jobCache && cluster !== null) {
    const text =
      'job_cache: false has no effect in a cluster: members keep jobs, because another one takes their returns';
    warnings.push(warning('bounded', jobCacheSetting.origin, text));
  }
  const logFileSetting = settings.get('log_file');
  if (logFileSetting !== undefined && !path.isAbsolute(logFile)) {
    const advice = 'name a file, or let the service manager keep what goes to standard error';
    const text = `log_file leads to a log service, not to a file: ${advice}`;
    warnings.push(warning('not-served', logFileSetting.origin, text));
  }
  return warnings;
}

/** A file that `cp.push` may send and that does not fit into what its minion may have here. */
function warnOfPushedFiles(
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
