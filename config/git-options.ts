/** Salt's options of git repositories: `gitfs_*`, `git_pillar_*`, and ours under `git`. */

import { ConfigError, typeError, unknownOption } from './config-error.ts';
import {
  absolutePath,
  entriesOf,
  explainItems,
  explainSection,
  flag,
  integer,
  isSettings,
  itemsOf,
  listOf,
  type OptionKind,
  oneOf,
  originOfMember,
  readSection,
  refuseValue,
  type SectionTable,
  type Setting,
  sectionEntries,
  sectionProblems,
  settingsOf,
  text,
  textList,
  toPlain,
} from './option-kinds.ts';

/** Where a repository is, and how it is fetched. */
export interface GitAccess {
  /** As git takes it: `https://…`, `ssh://…`, `user@host:path`. */
  readonly url: string;
  /** `user`, `password`: for `https`. Default: none. */
  readonly user: string;
  readonly password: string;
  /** `privkey`: file of the key for `ssh`. Default: what ssh finds. */
  readonly privkey: string;
  /** `ssl_verify`. Default true. */
  readonly sslVerify: boolean;
  /** `refspecs`: what is fetched. Default: all branches and tags. */
  readonly refspecs: readonly string[];
  /** `update_interval`: seconds between fetches. Default 60. */
  readonly updateInterval: number;
}

/** `saltbridge: git:` */
export interface GitLimits {
  /** `program`: git, as a name or a path. Default `git`. */
  readonly program: string;
  /** `protocols`: those that remotes may have. Default `https`, `http`, `ssh` and `git`. */
  readonly protocols: readonly string[];
  /** `timeout`: seconds that a fetch may take. Default 60. */
  readonly timeout: number;
  /** `max_bytes`: largest repository, and the most that its files have together. Default 1 GiB. */
  readonly maxBytes: number;
  /** `max_files`: the most files in a branch, and different ones in all. Default 100,000. */
  readonly maxFiles: number;
  /** `known_hosts`: file of the host keys for ssh. Default: ssh's own files. */
  readonly knownHosts: string | null;
  /** `credentials_file`: in the form of `git credential-store`, for its owner alone. Default: none. */
  readonly credentialsFile: string | null;
}

/** What the parameters of a remote may be, by their names in Salt. */
export type GitParameters = Readonly<Record<string, string | number | boolean | readonly string[]>>;

/** What a remote says of one environment. */
export interface GitSaltenv {
  /** Its name. */
  readonly saltenv: string;
  readonly ref?: string;
  readonly root?: string;
  readonly mountpoint?: string;
}

/** An item of `gitfs_remotes` or of `ext_pillar: git`. */
export interface GitRemote {
  /** As it stands there; for pillar it begins with the branch. */
  readonly id: string;
  readonly parameters: GitParameters;
  /** `saltenv` */
  readonly saltenv: readonly GitSaltenv[];
}

/** Salt's options `gitfs_*` and `git_pillar_*`. */
export interface GitOptions {
  /** `gitfs_remotes`: an address, or a map of it to its parameters. Default: none. */
  readonly gitfsRemotes: readonly GitRemote[];
  /** `gitfs_base`: branch, tag or commit of the environment `base`. Default `master`. */
  readonly gitfsBase: string;
  /** `gitfs_root`: directory of the repository that is served. Default: all of it. */
  readonly gitfsRoot: string;
  /** `gitfs_mountpoint`: directory that the files are served below. Default: none. */
  readonly gitfsMountpoint: string;
  /** `gitfs_fallback`: branch of environments that the repository has none for. Default: none. */
  readonly gitfsFallback: string;
  /** `gitfs_saltenv`: branch, root and mountpoint of single environments. */
  readonly gitfsSaltenv: readonly GitSaltenv[];
  /** `gitfs_saltenv_whitelist`: globs or regular expressions. Default: all. */
  readonly gitfsSaltenvWhitelist: readonly string[];
  /** `gitfs_saltenv_blacklist` */
  readonly gitfsSaltenvBlacklist: readonly string[];
  /** `gitfs_disable_saltenv_mapping`: only configured environments are served. Default false. */
  readonly gitfsDisableSaltenvMapping: boolean;
  /** `gitfs_ref_types`. Default branch, tag and sha. */
  readonly gitfsRefTypes: readonly GitRefType[];
  /** `gitfs_refspecs` */
  readonly gitfsRefspecs: readonly string[];
  /** `gitfs_ssl_verify`. Default true. */
  readonly gitfsSslVerify: boolean;
  /** `gitfs_update_interval`: seconds. Default 60. */
  readonly gitfsUpdateInterval: number;
  /** `gitfs_user` */
  readonly gitfsUser: string;
  /** `gitfs_password` */
  readonly gitfsPassword: string;
  /** `gitfs_privkey` */
  readonly gitfsPrivkey: string;
  /** `gitfs_insecure_auth`: user and password may be sent over plain `http`. Default false. */
  readonly gitfsInsecureAuth: boolean;
  /** `git_pillar_base`: branch of the pillar environment `base`. Default `master`. */
  readonly gitPillarBase: string;
  /** `git_pillar_branch`: where a remote names none. Default `master`. */
  readonly gitPillarBranch: string;
  /** `git_pillar_env`: environment of the pillar. Default: the branch. */
  readonly gitPillarEnv: string;
  /** `git_pillar_root` */
  readonly gitPillarRoot: string;
  /** `git_pillar_fallback` */
  readonly gitPillarFallback: string;
  /** `git_pillar_includes`: remotes of an environment see each other's files. Default true. */
  readonly gitPillarIncludes: boolean;
  /** `git_pillar_refspecs` */
  readonly gitPillarRefspecs: readonly string[];
  /** `git_pillar_ssl_verify`. Default true. */
  readonly gitPillarSslVerify: boolean;
  /** `git_pillar_update_interval`: seconds. Default 60. */
  readonly gitPillarUpdateInterval: number;
  /** `git_pillar_user` */
  readonly gitPillarUser: string;
  /** `git_pillar_password` */
  readonly gitPillarPassword: string;
  /** `git_pillar_privkey` */
  readonly gitPillarPrivkey: string;
  /** `git_pillar_insecure_auth` */
  readonly gitPillarInsecureAuth: boolean;
}

export type GitRefType = 'branch' | 'tag' | 'sha';

/** As Salt takes it: a list, or a text with commas. */
const commaList: OptionKind<readonly string[]> = {
  ...textList,
  parse: (value) =>
    typeof value === 'string' ? value.split(',').map((item) => item.trim()) : textList.parse(value),
};

const refTypes = listOf(commaList, oneOf<GitRefType>(['branch', 'tag', 'sha']));

/** What git cannot take for anything else. */
const refspecs: OptionKind<readonly string[]> = {
  expected: 'a list of refspecs: +refs/heads/*:refs/remotes/origin/*',
  isPath: false,
  parse: (value) => {
    const list = commaList.parse(value);
    const form = /^\+?refs\/[^:\s]+:refs\/(?:remotes\/[^/:\s]+|tags)\/[^:\s]+$/;
    return list?.every((item) => form.test(item)) === true ? list : undefined;
  },
  explain: (setting) => {
    const expected = 'a refspec: +refs/heads/*:refs/remotes/origin/*';
    const parse = (value: unknown): unknown => refspecs.parse([value]);
    return explainItems({ expected, parse }, setting);
  },
};

/** Text that may be empty. */
const anyText: OptionKind<string> = {
  expected: 'text',
  isPath: false,
  parse: (value) =>
    value === '' ? '' : text.parse(typeof value === 'number' ? String(value) : value),
};

/** The name of a branch or tag, or a commit; a directory. */
const safeText: OptionKind<string> = {
  ...anyText,
  expected: 'text that does not begin with -',
  parse: (value) => {
    const name = anyText.parse(value);
    return name?.startsWith('-') ? undefined : name;
  },
};

const saltenvTable: SectionTable<Omit<GitSaltenv, 'saltenv'>> = {
  ref: { name: 'ref', kind: safeText },
  root: { name: 'root', kind: anyText },
  mountpoint: { name: 'mountpoint', kind: anyText },
};

/** A map, or as in Salt a list of maps with one name each, of which each may be such a list. */
const saltenvs: OptionKind<readonly GitSaltenv[]> = {
  expected: 'a list of environments, each with ref, root or mountpoint',
  isPath: false,
  parse: (value) => {
    const found: GitSaltenv[] = [];
    const envs = ofProgram(value) ?? repack(value);
    for (const [env, parameters] of envs ?? []) {
      const pairs = repack(parameters);
      const read = pairs && readSection(saltenvTable, Object.fromEntries(pairs));
      if (read === undefined) return undefined;
      found.push({ saltenv: env, ...read });
    }
    return envs && found;
  },
  explain: (setting) =>
    ConfigError.of((parametersIn(setting) ?? []).flatMap(([, env]) => explainSaltenv(env))),
};

/** All that is wrong with one environment, each by its own place. */
function explainSaltenv(env: Setting): readonly ConfigError[] {
  const parameters = parametersIn(env);
  if (parameters === undefined) {
    return [typeError(env.origin, env.value, 'a list of maps: ref, root or mountpoint')];
  }
  return sectionProblems(saltenvTable, { ...env, value: new Map(parameters) });
}

/** What was read already, as a program passes it. */
function ofProgram(value: unknown): [string, unknown][] | undefined {
  if (!Array.isArray(value)) return undefined;
  const read = value.map((item): [string, unknown] | undefined => {
    const { saltenv, ...parameters } = Object.fromEntries(entriesOf(item) ?? []);
    return typeof saltenv === 'string' ? [saltenv, parameters] : undefined;
  });
  return read.every((item) => item !== undefined) ? read : undefined;
}

/** Salt's `repack_dictlist`: the pairs of a map, or of a list of maps. */
function repack(value: unknown): [string, unknown][] | undefined {
  const plain = toPlain(value);
  if (!Array.isArray(plain)) return entriesOf(plain);
  const lists = plain.map(entriesOf);
  const pairs = lists.filter((list) => list !== undefined);
  return pairs.length === lists.length ? pairs.flat() : undefined;
}

const interval = integer(1, 1_000_000_000);

/** Parameters of a remote, by their names in Salt. */
const shared = {
  ...{ name: text, user: anyText, password: anyText, privkey: anyText, pubkey: anyText },
  ...{ insecure_auth: flag, ssl_verify: flag, refspecs, base: safeText, root: anyText },
  ...{ mountpoint: anyText, fallback: safeText, all_saltenvs: safeText, update_interval: interval },
} as const;

const ofGitfs: Known = {
  ...shared,
  saltenv_whitelist: commaList,
  saltenv_blacklist: commaList,
  disable_saltenv_mapping: flag,
  ref_types: refTypes,
};

const ofPillar: Known = {
  ...shared,
  env: safeText,
};

type Known = Readonly<Record<string, OptionKind<GitParameters[string]>>>;

/** @param known parameters of a remote */
function remotesKind(known: Known): OptionKind<readonly GitRemote[]> {
  return {
    expected: `a list of addresses, or of maps of one address to its parameters (${Object.keys(known).join(', ')})`,
    isPath: false,
    parse: (value) => {
      const plain = toPlain(value);
      const list: readonly unknown[] = Array.isArray(plain) ? plain : [plain];
      const remotes = list.map((item) => readRemote(item, known));
      return remotes.every((remote) => remote !== undefined) ? remotes : undefined;
    },
    explain: (setting) =>
      ConfigError.of(remotesIn(setting).flatMap((item) => explainRemote(item, known))),
  };
}

/** Each with its place. */
export function remotesIn(setting: Setting): readonly Setting[] {
  return Array.isArray(setting.value) ? itemsOf(setting) : [setting];
}

/** All that is wrong with an item, each by its own place; the address, which may hold a password, is none. */
function explainRemote(item: Setting, known: Known): readonly ConfigError[] {
  if (readRemote(toPlain(item.value), known) !== undefined) return [];
  const [remote, ...members] = settingsOf(item);
  // As a program passes what was read already.
  const isOfProgram = remote?.[0] === 'id' && typeof remote[1].value === 'string';
  const read = isOfProgram
    ? members.flatMap(([name, member]) => (name === 'parameters' ? settingsOf(member) : []))
    : undefined;
  const others = isOfProgram ? [] : members;
  const refusal = typeError(
    item.origin,
    item.value,
    'an address, or a map of one address to its parameters',
  );
  if (remote === undefined || others.length > 0) return [refusal];
  const [id, { value }] = remote;
  if (withId(id, {}, []) === undefined) return [refusal];
  const parameters = read ?? parametersIn(remote[1]);
  if (parameters === undefined) {
    return [typeError(item.origin, value, 'a list of maps, each of one parameter to its value')];
  }
  const problems = parameters.flatMap(([name, found]) => {
    const origin = originOfMember(item.origin, name);
    const parameter = { ...found, origin: { ...origin, line: found.origin.line } };
    const isSaltenv = name === 'saltenv' && known === ofGitfs;
    const kind = isSaltenv ? saltenvs : Object.hasOwn(known, name) ? known[name] : undefined;
    if (kind === undefined) {
      const names = [...Object.keys(known), ...(known === ofGitfs ? ['saltenv'] : [])];
      return [unknownOption(parameter.origin, names, 'ERR_OPTION_TYPE').ofPart(found.origin)];
    }
    const isRight = kind.parse(found.value) !== undefined;
    return isRight
      ? []
      : refuseValue(kind, parameter).problems.map((it) => it.ofPart(found.origin));
  });
  return problems.length > 0 ? problems : [refusal];
}

/** As {@link repack} does, with places. */
function parametersIn(setting: Setting): readonly (readonly [string, Setting])[] | undefined {
  if (repack(setting.value) === undefined) return undefined;
  const maps = remotesIn(setting);
  // What has no value is refused as well.
  return maps.flatMap((map) => (isSettings(map.value) ? [...map.value] : settingsOf(map)));
}

function readRemote(item: unknown, known: Known): GitRemote | undefined {
  if (typeof item === 'string') return withId(item, {}, []);
  const [[id, given] = ['', undefined], ...others] = entriesOf(item) ?? [];
  // A program passes what was read already.
  if (id === 'id' && typeof given === 'string') {
    const rest = new Map(others);
    const saltenv = saltenvs.parse(rest.get('saltenv') ?? []);
    const parameters = readParameters(entriesOf(rest.get('parameters') ?? {}) ?? [], known);
    return saltenv && parameters && withId(given, parameters, saltenv);
  }
  const pairs = others.length > 0 ? undefined : repack(given);
  if (pairs === undefined) return undefined;
  const saltenv = saltenvs.parse(new Map(pairs).get('saltenv') ?? []);
  const isOther =
    known === ofGitfs ? ([name]: [string, unknown]) => name !== 'saltenv' : () => true;
  const parameters = readParameters(pairs.filter(isOther), known);
  return saltenv && parameters && withId(id, parameters, saltenv);
}

function readParameters(
  pairs: readonly [string, unknown][],
  known: Known,
): GitParameters | undefined {
  const read: [string, GitParameters[string]][] = [];
  for (const [name, found] of pairs) {
    const parsed = Object.hasOwn(known, name) ? known[name]?.parse(found) : undefined;
    if (parsed === undefined) return undefined;
    read.push([name, parsed]);
  }
  return Object.fromEntries(read);
}

function withId(
  id: string,
  parameters: GitParameters,
  saltenv: GitRemote['saltenv'],
): GitRemote | undefined {
  const isText = id !== '' && !/\p{Cc}/u.test(id) && !id.startsWith('-');
  return isText ? { id, parameters, saltenv } : undefined;
}

/** `gitfs_remotes`. */
const gitfsRemotes = remotesKind(ofGitfs);
/** The remotes of `ext_pillar: git`. */
export const gitPillarRemotes: OptionKind<readonly GitRemote[]> = remotesKind(ofPillar);

const allRefs: readonly string[] = [
  '+refs/heads/*:refs/remotes/origin/*',
  '+refs/tags/*:refs/tags/*',
];

interface GitOptionRow<T> {
  readonly name: string;
  readonly kind: OptionKind<T>;
  readonly default: T;
}

function row<T>(name: string, kind: OptionKind<T>, defaultValue: NoInfer<T>): GitOptionRow<T> {
  return { name, kind, default: defaultValue };
}

/** Rows of Salt's options. */
export const gitOptionRows: {
  readonly [Name in keyof GitOptions]: GitOptionRow<GitOptions[Name]>;
} = {
  gitfsRemotes: row('gitfs_remotes', gitfsRemotes, []),
  gitfsBase: row('gitfs_base', safeText, 'master'),
  gitfsRoot: row('gitfs_root', anyText, ''),
  gitfsMountpoint: row('gitfs_mountpoint', anyText, ''),
  gitfsFallback: row('gitfs_fallback', safeText, ''),
  gitfsSaltenv: row('gitfs_saltenv', saltenvs, []),
  gitfsSaltenvWhitelist: row('gitfs_saltenv_whitelist', commaList, []),
  gitfsSaltenvBlacklist: row('gitfs_saltenv_blacklist', commaList, []),
  gitfsDisableSaltenvMapping: row('gitfs_disable_saltenv_mapping', flag, false),
  gitfsRefTypes: row('gitfs_ref_types', refTypes, ['branch', 'tag', 'sha']),
  gitfsRefspecs: row('gitfs_refspecs', refspecs, allRefs),
  gitfsSslVerify: row('gitfs_ssl_verify', flag, true),
  gitfsUpdateInterval: row('gitfs_update_interval', interval, 60),
  gitfsUser: row('gitfs_user', anyText, ''),
  gitfsPassword: row('gitfs_password', anyText, ''),
  gitfsPrivkey: row('gitfs_privkey', anyText, ''),
  gitfsInsecureAuth: row('gitfs_insecure_auth', flag, false),
  gitPillarBase: row('git_pillar_base', safeText, 'master'),
  gitPillarBranch: row('git_pillar_branch', safeText, 'master'),
  gitPillarEnv: row('git_pillar_env', safeText, ''),
  gitPillarRoot: row('git_pillar_root', anyText, ''),
  gitPillarFallback: row('git_pillar_fallback', safeText, ''),
  gitPillarIncludes: row('git_pillar_includes', flag, true),
  gitPillarRefspecs: row('git_pillar_refspecs', refspecs, allRefs),
  gitPillarSslVerify: row('git_pillar_ssl_verify', flag, true),
  gitPillarUpdateInterval: row('git_pillar_update_interval', interval, 60),
  gitPillarUser: row('git_pillar_user', anyText, ''),
  gitPillarPassword: row('git_pillar_password', anyText, ''),
  gitPillarPrivkey: row('git_pillar_privkey', anyText, ''),
  gitPillarInsecureAuth: row('git_pillar_insecure_auth', flag, false),
};

// `saltbridge: git:`

const protocols = listOf(textList, oneOf(['https', 'http', 'ssh', 'git', 'file', 'ext']));

const limitTable: SectionTable<GitLimits> = {
  program: { name: 'program', kind: text },
  protocols: { name: 'protocols', kind: protocols },
  timeout: { name: 'timeout', kind: integer(1, 3600) },
  maxBytes: { name: 'max_bytes', kind: integer(1, 2 ** 40) },
  maxFiles: { name: 'max_files', kind: integer(1, 10_000_000) },
  knownHosts: { name: 'known_hosts', kind: absolutePath },
  credentialsFile: { name: 'credentials_file', kind: absolutePath },
};

export const gitLimitDefaults: GitLimits = {
  program: 'git',
  protocols: ['https', 'http', 'ssh', 'git'],
  timeout: 60,
  maxBytes: 2 ** 30,
  maxFiles: 100_000,
  knownHosts: null,
  credentialsFile: null,
};

/** A map; what is not in it has its default. */
export const gitLimits: OptionKind<GitLimits> = {
  expected:
    'a map with any of program, protocols (of https, http, ssh, git, file and ext), timeout ' +
    '(seconds), max_bytes, max_files, known_hosts and credentials_file (absolute paths)',
  isPath: false,
  parse: (value) => {
    const given = sectionEntries(value)?.filter(([, found]) => found !== null);
    const isInFile = isSettings(value);
    const section = readSection(
      limitTable,
      isInFile || given === undefined ? value : Object.fromEntries(given),
    );
    return section && Object.freeze({ ...gitLimitDefaults, ...section });
  },
  explain: (setting) => explainSection(limitTable, setting),
};
