/** Options as a program passes them to `createMaster`: camelCase, with units in the names. */

import { ConfigError } from './config-error.ts';
import type { LogLevel } from './log-level.ts';
import type { AclOptions, EauthOptions, Limits, MasterConfig, MasterOptions } from './options.ts';
import { checkOptions } from './resolve.ts';

/** Members of {@link MasterConfig} that have another name here. */
type ConfigName =
  | 'autosignTimeout'
  | 'cachedir'
  | 'fileserverListCacheTime'
  | 'gatherJobTimeout'
  | 'keysize'
  | 'loopInterval'
  | 'publishSession'
  | 'requestServerTtl'
  | 'restTimeout'
  | 'retPort'
  | 'sockDir'
  | 'tcpKeepaliveIdle'
  | 'timeout';

/** The name of each here. */
const plainNames: Readonly<Record<ConfigName, keyof PlainOptions>> = {
  autosignTimeout: 'autosignTimeoutMinutes',
  cachedir: 'cacheDir',
  fileserverListCacheTime: 'fileListCacheSeconds',
  gatherJobTimeout: 'gatherJobTimeoutSeconds',
  keysize: 'keyBits',
  loopInterval: 'loopIntervalSeconds',
  publishSession: 'publishSessionSeconds',
  requestServerTtl: 'requestTtlSeconds',
  restTimeout: 'httpRunnerTimeoutSeconds',
  retPort: 'requestPort',
  sockDir: 'socketDir',
  tcpKeepaliveIdle: 'tcpKeepaliveIdleSeconds',
  timeout: 'timeoutSeconds',
};

/** Members that programs say otherwise, or that only `saltbridge master` reads. */
type ReplacedName =
  | 'confFile'
  | 'extPillar'
  | 'keepJobs'
  | 'logFile'
  | 'logLevelLogfile'
  | 'pidfile'
  | 'restCherrypy'
  | 'tenants'
  | 'user';

/** What to do instead. */
const replacements: Readonly<Record<ReplacedName, string>> = {
  confFile: 'pass what loadSaltConfig gives as config',
  extPillar: 'pass sources of pillar, such as extPillarHttp makes',
  keepJobs: 'use keepJobsSeconds',
  logFile: 'use logger',
  logLevelLogfile: 'use logger',
  pidfile: 'it is for saltbridge master; leave it out',
  restCherrypy: 'use api',
  tenants: 'make a master of each',
  user: 'it is for saltbridge master; leave it out',
};

/** The same options, each of which may be left out. */
type Given<T> = { readonly [K in keyof T]?: Exclude<T[K], null> | undefined };

/** Options whose names and units are those of {@link MasterConfig}. */
type UnchangedOptions = Given<
  Omit<
    MasterConfig,
    ConfigName | ReplacedName | 'acl' | 'audit' | 'eauth' | 'git' | 'limits' | 'logLevel'
  >
>;

/** What a program may set. Each option has a default; `undefined` means the default. */
export interface PlainOptions extends UnchangedOptions {
  /** What is permitted. Default: nothing beyond a minion's own lifecycle. */
  readonly acl?: Partial<AclOptions> | undefined;
  /** The audit log. */
  readonly audit?: Partial<MasterConfig['audit']> | undefined;
  /** Minutes that a file in `minions_autosign` is valid. Default 120; 0: for ever. */
  readonly autosignTimeoutMinutes?: number | undefined;
  /** Directory of what minions pushed and of caches. Default `/var/cache/salt/master`. */
  readonly cacheDir?: string | undefined;
  /** What git may be used for, and bounds on repositories. */
  readonly git?: Partial<MasterConfig['git']> | undefined;
  /** Log-ins and tokens. */
  readonly eauth?: Partial<EauthOptions> | undefined;
  /** Seconds between looks for changed directories that the system did not report. Default 20. */
  readonly fileListCacheSeconds?: number | undefined;
  /** Seconds that a minion has to say whether it still runs a job. Default 10. */
  readonly gatherJobTimeoutSeconds?: number | undefined;
  /** Seconds that the HTTP API waits for a runner. Default 300. */
  readonly httpRunnerTimeoutSeconds?: number | undefined;
  /** Bits of the master's RSA key when it is generated. Default 2048. */
  readonly keyBits?: number | undefined;
  /** Bounds on what one minion or one address may ask. */
  readonly limits?: Partial<Limits> | undefined;
  /**
   * Level of the log: of `logger`, where there is one; else of lines of JSON on standard error.
   * Default: the level of `logger`; without one nothing is logged.
   */
  readonly logLevel?: LogLevel | undefined;
  /** Seconds between rounds of maintenance. Default 60. */
  readonly loopIntervalSeconds?: number | undefined;
  /** Seconds that the publish key and session keys last. Default 86,400. */
  readonly publishSessionSeconds?: number | undefined;
  /** Port of requests. Default 4506; 0: any free one. */
  readonly requestPort?: number | undefined;
  /** Seconds that the time stamp of a request may be off. Default 300; 0: any. */
  readonly requestTtlSeconds?: number | undefined;
  /** Directory of local sockets. Default `/var/run/salt/master`. */
  readonly socketDir?: string | undefined;
  /** Seconds before the first probe of an idle connection. Default 300; -1: the system's. */
  readonly tcpKeepaliveIdleSeconds?: number | undefined;
  /** Seconds that a caller waits for returns. Default 5. */
  readonly timeoutSeconds?: number | undefined;
}

const configNames: ReadonlyMap<string, string> = new Map(
  Object.entries(plainNames).map(([name, plain]) => [plain, name]),
);

/**
 * A complete configuration from plain options.
 * @throws ConfigError ERR_OPTION_TYPE, ERR_OPTION_CONFLICT, ERR_OPTION_UNKNOWN, and
 * ERR_OPTION_RENAMED for Salt's spelling; `key` is the name that the program used
 */
export function resolvePlainOptions(options: PlainOptions): MasterConfig {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const former = given.flatMap(([name]) => formerName(name));
  const current = given.filter(([name]) => formerName(name).length === 0);
  const renamed: Partial<MasterOptions> = Object.fromEntries(
    current.map(([name, value]) => [configNames.get(name) ?? name, value]),
  );
  const { config, problems } = checkOptions(renamed);
  const mistake = ConfigError.of([...former, ...problems.map(withPlainName)]);
  if (mistake !== undefined) throw mistake;
  return config;
}

function isRenamed(name: string): name is ConfigName {
  return Object.hasOwn(plainNames, name);
}

function isReplaced(name: string): name is ReplacedName {
  return Object.hasOwn(replacements, name);
}

/** The refusal of a name that is not for programs. */
function formerName(name: string): readonly ConfigError[] {
  const origin = { file: 'options', line: 0, key: name };
  const refuse = (problem: string): readonly ConfigError[] => [
    new ConfigError('ERR_OPTION_RENAMED', origin, problem),
  ];
  if (isRenamed(name)) return refuse(`is called ${plainNames[name]} in programs`);
  return isReplaced(name) ? refuse(`is not for programs: ${replacements[name]}`) : [];
}

/** Names the option as the program does. */
function withPlainName(error: ConfigError): ConfigError {
  if (!isRenamed(error.key)) return error;
  const { code, file, line, entry, problem, cause } = error;
  const key = plainNames[error.key];
  return new ConfigError(code, { file, line, key, entry }, problem, { cause });
}
