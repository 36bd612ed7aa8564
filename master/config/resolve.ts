import path from 'node:path';
import { findNodegroupLoop } from '../../minion-protocol/index.ts';
import { ConfigError, type OptionOrigin, typeError, unknownOption } from './config-error.ts';
import { checkExtPillar } from './ext-pillar.ts';
import { checkGitRemotes } from './git-remotes.ts';
import {
  type GivenOptions,
  originOfSetting,
  refuseValue,
  type Setting,
  type Settings,
} from './option-kinds.ts';
import {
  aclOptions,
  eauthOptions,
  isPassedOn,
  limitOptions,
  namesOf,
  type OptionTable,
  ownOptions,
  readPassedOn,
  rightsOptions,
  saltOptions,
} from './option-table.ts';
import type { MasterConfig, MasterOptions } from './options.ts';
import { checkPolicy } from './policy-rules.ts';
import { checkReactions } from './reactions.ts';
import { readSchedule } from './schedule.ts';
import { readSdbProfiles } from './sdb-profiles.ts';
import { findSharedPort, servedTransports } from './transport-options.ts';

/** Puts every path below `root_dir`, as Salt does. [salt.config.apply_master_config] */
function joinRootDir(config: MasterConfig, given: GivenOptions): MasterConfig {
  const root = path.resolve(config.rootDir);
  const join = (value: string): string => below(root, value);
  const joinOptional = (value: string | null): string | null => value && join(value);
  const isTooLong = config.sockDir.length > config.cachedir.length + 10;
  const sockDir = join(isTooLong ? `${config.cachedir}/.salt-unix` : config.sockDir);
  const isLogAddress = /^[a-z][a-z0-9+.-]*:/i.test(config.logFile);
  return {
    ...config,
    rootDir: root,
    confFile: path.resolve(config.confFile),
    pkiDir: join(config.pkiDir),
    cachedir: join(config.cachedir),
    sockDir,
    pidfile: join(config.pidfile),
    autosignFile: joinOptional(config.autosignFile),
    autorejectFile: joinOptional(config.autorejectFile),
    autosignGrainsDir: joinOptional(config.autosignGrainsDir),
    logFile: isLogAddress ? config.logFile : join(config.logFile),
    stateDir: join(config.stateDir),
    socket: given.own.has('socket') ? join(config.socket) : path.join(sockDir, config.socket),
  };
}

/** Absolute paths too, unless they are below already. [salt.config.prepend_root_dir] */
function below(root: string, value: string): string {
  const isBelow = value === root || value.startsWith(`${root}/`);
  return isBelow ? path.resolve(value) : path.join(root, value);
}

/**
 * Checks what was given and adds what was not.
 * @throws ConfigError ERR_OPTION_TYPE, ERR_OPTION_CONFLICT
 */
export function completeConfig(given: GivenOptions): MasterConfig {
  const salt = readTable(saltOptions, given.salt);
  const rights = readTable(rightsOptions, given.salt);
  const eauth = Object.freeze(readTable(eauthOptions, given.salt));
  const own = readTable(ownOptions, given.own);
  const limits = Object.freeze(readTable(limitOptions, given.limits));
  const acl = Object.freeze(readTable(aclOptions, given.acl));
  const saltgui = readPassedOn(given.salt);
  const sdb = readSdbProfiles(given.salt, isOption);
  const rooted = joinRootDir(
    { ...salt, ...rights, ...own, eauth, saltgui, sdb, limits, acl },
    given,
  );
  const config: MasterConfig = { ...rooted, keepJobsSeconds: keepJobsSeconds(rooted, given) };
  refuseConflicts(config, given);
  checkPolicy(config, given.acl);
  checkReactions(config);
  checkExtPillar(given.salt);
  checkGitRemotes(config, given.salt);
  readSchedule(config.schedule, given.salt);
  return Object.freeze(config);
}

function readTable<T extends object>(table: OptionTable<T>, given: Settings): T {
  const values: Partial<T> = {};
  for (const member in table) {
    const { name, kind, default: defaultValue } = table[member];
    const setting = given.get(name);
    // A key without a value is one that somebody commented the value of.
    if (setting === undefined || setting.value === null) {
      values[member] = defaultValue;
      continue;
    }
    const value = kind.parse(setting.value);
    if (value === undefined) throw refuseValue(kind, setting);
    values[member] = value;
  }
  return values as T; // every member of the table has been set
}

const options: ReadonlySet<string> = new Set([
  ...namesOf(saltOptions),
  ...namesOf(rightsOptions),
  ...namesOf(eauthOptions),
  'saltbridge',
]);

function isOption(name: string): boolean {
  return options.has(name) || isPassedOn(name);
}

function keepJobsSeconds(config: MasterConfig, { salt }: GivenOptions): number {
  const isOlderForm = salt.has('keep_jobs') && !salt.has('keep_jobs_seconds');
  return isOlderForm ? config.keepJobs * 3600 : config.keepJobsSeconds;
}

function refuseConflicts(config: MasterConfig, { salt, own }: GivenOptions): void {
  if (config.openMode && !config.confirmOpenMode) {
    throw new ConfigError(
      'ERR_OPTION_CONFLICT',
      originOfSetting(salt, 'open_mode'),
      'accepts any key for any minion, also in place of a known one; ' +
        'if that is meant, set confirm_open_mode: true under saltbridge:',
    );
  }
  const loop = findNodegroupLoop(config.nodegroups);
  if (loop !== undefined) {
    throw new ConfigError(
      'ERR_OPTION_CONFLICT',
      originOfSetting(salt, 'nodegroups'),
      `a nodegroup contains itself: ${loop.join(' > ')}; take one N@ of these out`,
    );
  }
  const served = servedTransports(config);
  if (served.some(({ relay, ssl }) => relay !== null && ssl !== false)) {
    throw new ConfigError(
      'ERR_OPTION_CONFLICT',
      originOfSetting(own, 'relay'),
      'ports for relays are not served with ssl; expected another transport, or no ssl',
    );
  }
  const shared = findSharedPort(served);
  if (shared !== undefined) {
    const key = ['transport_opts', 'ret_port'].find((name) => salt.has(name)) ?? 'publish_port';
    throw new ConfigError(
      'ERR_OPTION_CONFLICT',
      originOfSetting(salt, key),
      `${shared} are the same; expected different ports`,
    );
  }
}

/**
 * A complete configuration from the options that a program passes. They are checked like those
 * of a file; `undefined` means not set.
 * @throws ConfigError ERR_OPTION_TYPE, ERR_OPTION_CONFLICT, ERR_OPTION_UNKNOWN
 */
export function resolveMasterConfig(options: Partial<MasterOptions> = {}): MasterConfig {
  const { limits = {}, acl = {}, eauth = {}, saltgui = {}, sdb = {}, ...rest } = options;
  refuseOther('limits', limits);
  refuseOther('acl', acl);
  refuseOther('eauth', eauth);
  const own = new Map(Object.entries(rest).filter(([name]) => Object.hasOwn(ownOptions, name)));
  const salt = Object.entries(rest).filter(([name]) => !own.has(name));
  return completeConfig({
    salt: new Map([
      ...toSettings(salt, { ...saltOptions, ...rightsOptions }, [
        ...Object.keys(saltOptions),
        ...Object.keys(rightsOptions),
        ...Object.keys(ownOptions),
      ]),
      ...toSettings(Object.entries(eauth), eauthOptions, Object.keys(eauthOptions)),
      ...Object.entries({ ...saltgui, ...sdb }).map(([name, value]): [string, Setting] => [
        name,
        { value, origin: originOf(name) },
      ]),
    ]),
    own: toSettings([...own], ownOptions, []),
    limits: toSettings(Object.entries(limits), limitOptions, Object.keys(limitOptions)),
    acl: toSettings(Object.entries(acl), aclOptions, Object.keys(aclOptions)),
  });
}

function refuseOther(name: string, value: unknown): void {
  if (typeof value === 'object' && value !== null) return;
  throw typeError(originOf(name), value, 'an object');
}

function toSettings<T extends object>(
  options: readonly (readonly [name: string, value: unknown])[],
  table: OptionTable<T>,
  known: readonly string[],
): Settings {
  const settings: Settings = new Map();
  for (const [name, value] of options) {
    if (!isMember(table, name)) throw unknownOption(originOf(name), known);
    if (value !== undefined) settings.set(table[name].name, { value, origin: originOf(name) });
  }
  return settings;
}

function isMember<T extends object>(table: OptionTable<T>, name: string): name is string & keyof T {
  return Object.hasOwn(table, name);
}

function originOf(name: string): OptionOrigin {
  return { file: 'options', line: 0, key: name };
}
