import path from 'node:path';
import { ConfigError, type OptionOrigin, typeError, unknownOption } from './config-error.ts';
import { extPillarProblems } from './ext-pillar.ts';
import { gitRemoteProblems } from './git-remotes.ts';
import { loginOptions } from './login-options.ts';
import type { OptionRow, OptionTable, ValuesOf } from './option.ts';
import { type MasterConfig, type MasterOptions, namesIn } from './options.ts';
import { aclOptions, limitOptions, ownOptions } from './own-options.ts';
import { isPassedOn, readPassedOn } from './passed-on.ts';
import { policyProblems } from './policy-rules.ts';
import { reactionProblems } from './reaction-problems.ts';
import { rightsOptions, saltOptions } from './salt-options.ts';
import { scheduleProblems } from './schedule.ts';
import { readSetting } from './schema.ts';
import { readSdbProfiles } from './sdb-profiles.ts';
import { findSharedPort, servedTransports } from './served-transports.ts';
import {
  type GivenOptions,
  isAbove,
  originOfSetting,
  type Setting,
  type Settings,
  settingsOf,
  withoutPlaces,
} from './settings.ts';

/** Beginning of an address, such as `file:///dev/log`, which is not a path. */
const address = /^[a-z][a-z0-9+.-]*:/i;

/** Joins all paths to `root_dir`, as Salt does [salt.config.apply_master_config]. */
function joinRootDir(config: MasterConfig, given: GivenOptions): MasterConfig {
  const root = path.resolve(config.rootDir);
  const isTooLong = config.sockDir.length > config.cachedir.length + 10;
  const sockDir = isTooLong ? `${config.cachedir}/.salt-unix` : config.sockDir;
  const socket = given.own.has('socket') ? config.socket : path.join(sockDir, config.socket);
  const written = { ...config, sockDir, socket };
  const joined = { ...saltOptions, ...ownOptions };
  const paths = Object.entries(joined).flatMap(([member, { base }]: [string, OptionRow]) => {
    const value: unknown = written[member as keyof typeof joined]; // a key of this object
    const isElsewhere = member === 'logFile' && address.test(config.logFile);
    const isPath = base === 'root_dir' && typeof value === 'string' && !isElsewhere;
    return isPath && value !== '' ? [[member, below(root, value)]] : [];
  });
  return {
    ...written,
    rootDir: root,
    confFile: path.resolve(config.confFile),
    ...Object.fromEntries(paths),
  };
}

/**
 * Returns a path below a root directory. A path that is already below the root stays unchanged. Any
 * other path is joined to the root, even if it is absolute [salt.config.prepend_root_dir].
 */
function below(root: string, value: string): string {
  const isBelow = value === root || value.startsWith(`${root}/`);
  return isBelow ? path.resolve(value) : path.join(root, value);
}

/** Complete configuration, with all mistakes in the given options. */
export interface CompletedConfig {
  /** Configuration. Each invalid option has its default. */
  readonly config: MasterConfig;
  readonly problems: readonly ConfigError[];
}

/**
 * Validates the given options and adds defaults. After a mistake, continues with the other options.
 */
export function completeConfig(given: GivenOptions): CompletedConfig {
  const mistakes: ConfigError[] = [];
  const salt = readTable({ ...saltOptions, ...rightsOptions }, given.salt, mistakes);
  const eauth = readTable(loginOptions, given.salt, mistakes);
  const own = readTable(ownOptions, given.own, mistakes);
  const limits = readTable(limitOptions, given.limits, mistakes);
  const acl = readTable(aclOptions, given.acl, mistakes);
  const sdb = readSdbProfiles(given.salt, isOption);
  mistakes.push(...sdb.problems);
  const usable: GivenOptions = { ...given, salt: salt.usable, own: own.usable, acl: acl.usable };
  const rooted = joinRootDir(
    {
      ...salt.values,
      ...own.values,
      eauth: Object.freeze(eauth.values),
      saltgui: readPassedOn(given.salt),
      sdb: sdb.profiles,
      limits: Object.freeze(limits.values),
      acl: Object.freeze(acl.values),
    },
    usable,
  );
  const config = Object.freeze({ ...rooted, keepJobsSeconds: keepJobsSeconds(rooted, usable) });
  const contradictions = problemsBetween(config, usable, namesOfGroups(given.salt));
  const reported = contradictions.filter(
    (it) => !mistakes.some((mistake) => mayFollow(it, mistake)),
  );
  return { config, problems: [...mistakes, ...reported] };
}

/**
 * Returns contradictions between options that are valid on their own.
 * @param groups - names of nodegroups
 */
function problemsBetween(
  config: MasterConfig,
  given: GivenOptions,
  groups: readonly string[],
): readonly ConfigError[] {
  // Add the names of invalid nodegroups, which have already been reported.
  const standIns = Object.fromEntries(groups.map((name) => [name, '*']));
  const known = { ...config, nodegroups: { ...standIns, ...config.nodegroups } };
  return [
    ...conflictsOf(config, given),
    ...policyProblems(known, given.acl),
    ...reactionProblems(known, given.own),
    ...extPillarProblems(given.salt),
    ...gitRemoteProblems(config, given.salt),
    ...scheduleProblems(config.schedule, given.salt),
  ];
}

function namesOfGroups(salt: Settings): readonly string[] {
  const setting = salt.get('nodegroups');
  return setting === undefined ? [] : settingsOf(setting).map(([name]) => name);
}

/**
 * Whether a problem may result from a mistake that is already reported. The checked configuration
 * omits the value with the mistake, and this omission can cause further problems.
 */
function mayFollow({ key, entry, problem }: ConfigError, mistake: ConfigError): boolean {
  const option = optionOf(key);
  const other = optionOf(mistake.key);
  if (option !== other && goesBy.get(option)?.includes(other) !== true) return false;
  if (ports.includes(option)) return true;
  // An item of a list is not affected by mistakes in other items.
  if (key === mistake.key && firstItem(entry) !== firstItem(mistake.entry)) return false;
  const name = `${mistake.key}${mistake.entry ?? ''}`.split(/[:\]]/).at(-1) ?? '';
  if (option !== other && option === 'saltbridge:reactions') return /signal rule/.test(problem);
  return problem.split(/[^\w.-]+/).includes(name);
}

/**
 * Returns the option that contains a key. For `saltbridge:acl:rules`, it is `saltbridge:acl`. For a
 * key within `ext_pillar`, it is `ext_pillar`.
 */
function optionOf(key: string): string {
  const [first = '', second = ''] = key.split(':');
  return first === 'saltbridge' ? `${first}:${second}` : first;
}

const ports = ['publish_port', 'ret_port', 'transport_opts'];

/**
 * For each option, the other options that its validity depends on. A mistake in one of them can be
 * the real cause of an error about the option.
 */
const goesBy: ReadonlyMap<string, readonly string[]> = new Map([
  ...ports.map((port): [string, readonly string[]] => [port, ports]),
  ['open_mode', ['saltbridge:confirm_open_mode']],
  ['gitfs_remotes', ['saltbridge:git']],
  ['ext_pillar', ['saltbridge:git']],
  ['saltbridge:reactions', ['saltbridge:acl']],
]);

/**
 * Returns the index at the beginning of a path in an option: `[1]` for `[1]:user`. A path without
 * such an index is returned unchanged.
 */
function firstItem(entry = ''): string {
  return entry.replace(/(?<=^\[\d+\]).*/s, '');
}

/** Options of one table, as read from settings. */
interface ReadOptions<T> {
  readonly values: T;
  /** Settings without their invalid parts. */
  readonly usable: Settings;
}

/**
 * Reads the options of a table.
 * @param mistakes - list that mistakes are added to
 */
function readTable<Table extends OptionTable>(
  table: Table,
  given: Settings,
  mistakes: ConfigError[],
): ReadOptions<ValuesOf<Table>> {
  const values: Record<string, unknown> = {};
  const usable = new Map(given);
  for (const [member, { name, schema, default: defaultValue }] of Object.entries(table)) {
    values[member] = defaultValue;
    const found: ConfigError[] = [];
    let setting = given.get(name);
    // A key without a value is treated as not set: its value may be commented out.
    while (setting !== undefined && setting.value !== null) {
      const read = readSetting(schema, setting);
      if (read.problems === undefined) {
        values[member] = read.value;
        break;
      }
      // Ignore mistakes that only result from an omitted part.
      found.push(
        ...read.problems.filter((it) => !found.some(({ part }) => isAbove(it.part, part))),
      );
      setting = withoutPlaces(
        setting,
        read.problems.map(({ part }) => part),
      );
    }
    mistakes.push(...found);
    if (found.length === 0) continue;
    if (setting === undefined) usable.delete(name);
    else usable.set(name, setting);
  }
  return { values: values as ValuesOf<Table>, usable }; // every member of the table has been set
}

const options: ReadonlySet<string> = new Set([
  ...namesIn(saltOptions),
  ...namesIn(rightsOptions),
  ...namesIn(loginOptions),
  'saltbridge',
]);

function isOption(name: string): boolean {
  return options.has(name) || isPassedOn(name);
}

function keepJobsSeconds(config: MasterConfig, { salt }: GivenOptions): number {
  const isOlderForm = salt.has('keep_jobs') && !salt.has('keep_jobs_seconds');
  return isOlderForm ? config.keepJobs * 3600 : config.keepJobsSeconds;
}

/** Returns contradictions between single options. */
function conflictsOf(config: MasterConfig, { salt, own }: GivenOptions): readonly ConfigError[] {
  const conflicts: ConfigError[] = [];
  const refuse = (settings: Settings, key: string, problem: string): void => {
    const origin = originOfSetting(settings, key);
    conflicts.push(new ConfigError('ERR_OPTION_CONFLICT', origin, problem));
  };
  if (config.openMode && !config.confirmOpenMode) {
    refuse(
      salt,
      'open_mode',
      'accepts any key for any minion, even a new key for a known minion; ' +
        'to confirm this, set confirm_open_mode: true under saltbridge:',
    );
  }
  const served = servedTransports(config);
  if (served.some(({ relay, ssl }) => relay !== null && ssl !== false)) {
    const problem =
      'ports for relays cannot be used with ssl: choose another transport, or disable ssl';
    refuse(own, 'relay', problem);
  }
  const shared = findSharedPort(served);
  if (shared !== undefined) {
    const key = ['transport_opts', 'ret_port'].find((name) => salt.has(name)) ?? 'publish_port';
    refuse(salt, key, `${shared} use the same port; set different ports`);
  }
  return conflicts;
}

/**
 * Returns a complete configuration from the options of a program. They are validated like the
 * options in a file. `undefined` is treated as not set.
 * @throws ConfigError ERR_OPTION_TYPE, ERR_OPTION_CONFLICT, ERR_OPTION_UNKNOWN, with all mistakes
 */
export function resolveMasterConfig(options: Partial<MasterOptions> = {}): MasterConfig {
  const { config, problems } = checkOptions(options);
  const mistake = ConfigError.of(problems);
  if (mistake !== undefined) throw mistake;
  return config;
}

/**
 * Validates the options of a program. Returns all mistakes and a usable configuration, instead of
 * throwing.
 */
export function checkOptions(options: Partial<MasterOptions>): CompletedConfig {
  const { limits = {}, acl = {}, eauth = {}, saltgui = {}, sdb = {}, ...rest } = options;
  const ofSalt = { ...saltOptions, ...rightsOptions };
  const isOwn = ([name]: readonly [string, unknown]): boolean => Object.hasOwn(ownOptions, name);
  const known = [...Object.keys(ofSalt), ...Object.keys(ownOptions)];
  const given = Object.entries(rest);
  const unknown: ConfigError[] = [];
  const read = (
    entries: readonly (readonly [string, unknown])[],
    table: OptionTable,
    names: readonly string[] = Object.keys(table),
    above = '',
  ): Settings =>
    toSettings(entries, table, {
      above,
      onUnknown: (origin) => unknown.push(unknownOption(origin, names)),
    });
  const section = (name: string, value: unknown): readonly [string, unknown][] => {
    if (typeof value === 'object' && value !== null) return Object.entries(value);
    unknown.push(typeError(originOf(name), value, 'an object'));
    return [];
  };
  const passedOn = Object.entries({ ...saltgui, ...sdb });
  const { config, problems } = completeConfig({
    salt: new Map([
      ...read(
        given.filter((it) => !isOwn(it)),
        ofSalt,
        known,
      ),
      ...read(section('eauth', eauth), loginOptions, undefined, 'eauth:'),
      ...passedOn.map(([name, value]): [string, Setting] => [
        name,
        { value, origin: originOf(name) },
      ]),
    ]),
    own: read(given.filter(isOwn), ownOptions),
    limits: read(section('limits', limits), limitOptions, undefined, 'limits:'),
    acl: read(section('acl', acl), aclOptions, undefined, 'acl:'),
  });
  return { config, problems: [...unknown, ...problems] };
}

interface SectionOfProgram {
  /** Prefix of the option names in errors, for example `limits:`. */
  readonly above: string;
  /** Called for each name that the option table does not contain. */
  readonly onUnknown: (origin: OptionOrigin) => void;
}

function toSettings(
  options: readonly (readonly [name: string, value: unknown])[],
  table: OptionTable,
  { above, onUnknown }: SectionOfProgram,
): Settings {
  const settings = new Map<string, Setting>();
  for (const [name, value] of options) {
    const origin = originOf(`${above}${name}`);
    const row = Object.hasOwn(table, name) ? table[name] : undefined;
    if (row === undefined) onUnknown(origin);
    else if (value !== undefined) settings.set(row.name, { value, origin });
  }
  return settings;
}

function originOf(name: string): OptionOrigin {
  return { file: 'options', line: 0, key: name };
}
