/**
 * Salt's options of git repositories, `gitfs_*` and `git_pillar_*`, and the options under
 * `saltbridge: git:`.
 */

import type { Static, TSchema, TUnsafe } from 'typebox';
import { type ConfigError, typeError, unknownOption } from './config-error.ts';
import { option, type ValuesOf } from './option.ts';
import {
  absolutePath,
  anyText,
  bytes,
  custom,
  flag,
  integer,
  list,
  oneOf,
  optional,
  orNull,
  parseValue,
  refusals,
  section,
  shapeOf,
  text,
  textWhere,
} from './schema.ts';
import {
  entriesOf,
  isSettings,
  itemsOf,
  originOfMember,
  type Setting,
  settingsOf,
  toPlain,
} from './settings.ts';

/** Address of a repository and the options for fetching it. */
export interface GitAccess {
  /** Address in git's syntax: `https://…`, `ssh://…`, `user@host:path`. */
  readonly url: string;
  /** `user`, `password`: credentials for `https`. Default: none. */
  readonly user: string;
  readonly password: string;
  /** `privkey`: file of the private key for `ssh`. Default: the keys that ssh finds. */
  readonly privkey: string;
  /** `ssl_verify`: whether server certificates are verified. Default: true. */
  readonly sslVerify: boolean;
  /** `refspecs`: references to fetch. Default: all branches and tags. */
  readonly refspecs: readonly string[];
  /** `update_interval`: time between fetches, in seconds. Default: 60. */
  readonly updateInterval: number;
}

/** Parameters of a remote, by their names in Salt. */
export type GitParameters = Readonly<Record<string, string | number | boolean | readonly string[]>>;

/** Settings of one environment of a remote. */
export interface GitSaltenv {
  /** Name of the environment. */
  readonly saltenv: string;
  readonly ref?: string;
  readonly root?: string;
  readonly mountpoint?: string;
}

/** An item of `gitfs_remotes` or of `ext_pillar: git`. */
export interface GitRemote {
  /**
   * Identifier of the remote, as written in the configuration. For pillar, it begins with the
   * branch.
   */
  readonly id: string;
  readonly parameters: GitParameters;
  /** `saltenv`: settings for certain environments. */
  readonly saltenv: readonly GitSaltenv[];
}

export type GitRefType = 'branch' | 'tag' | 'sha';

/** Returns the schema of a list. As in Salt, the list may also be a text with commas. */
function commaList<S extends TSchema>(item: S, expected: string): TUnsafe<readonly Static<S>[]> {
  const items = list(item, { expected });
  return custom<readonly Static<S>[]>(
    {
      expected,
      accept: (value) =>
        parseValue(
          items,
          typeof value === 'string' ? value.split(',').map((it) => it.trim()) : value,
        ),
      explain: (setting) => (Array.isArray(setting.value) ? refusals(items, setting) : []),
    },
    shapeOf(items),
  );
}

const names = commaList(anyText(), 'a text or a list of texts');
const refType = oneOf<GitRefType>(['branch', 'tag', 'sha']);
const refTypes = commaList(refType, 'a list, each one of branch, tag, sha');

const refspecForm = /^\+?refs\/[^:\s]+:refs\/(?:remotes\/[^/:\s]+|tags)\/[^:\s]+$/;

/** Schema of refspecs. None can begin with `-`, so that git does not mistake it for an option. */
const refspecs = commaList(
  textWhere((it) => refspecForm.test(it), 'a refspec: +refs/heads/*:refs/remotes/origin/*'),
  'a list of refspecs: +refs/heads/*:refs/remotes/origin/*',
);

/**
 * Schema of the name of a branch, tag, commit or directory. It must not begin with `-`, so that git
 * does not mistake it for an option.
 */
const safeText = anyText({
  expected: 'text that does not begin with -',
  accept: (value) => {
    const name = typeof value === 'number' ? String(value) : value;
    return typeof name === 'string' && name.startsWith('-') ? undefined : name;
  },
});

const saltenvSection = section({
  ref: optional(safeText),
  root: optional(anyText()),
  mountpoint: optional(anyText()),
});

/**
 * Schema of the git settings of environments (`saltenv`): a map by name of the environment or, as
 * in Salt, a list of maps with one environment each. In the same way, the settings of one
 * environment are a map or a list of maps.
 */
const saltenvs = custom<readonly GitSaltenv[]>(
  {
    expected: 'a list of environments, each with ref, root or mountpoint',
    accept: (value) => {
      const found: GitSaltenv[] = [];
      const envs = ofProgram(value) ?? repack(value);
      for (const [env, parameters] of envs ?? []) {
        const pairs = repack(parameters);
        const read = pairs && parseValue(saltenvSection, Object.fromEntries(pairs));
        if (read === undefined) return undefined;
        found.push({ saltenv: env, ...read });
      }
      return envs && found;
    },
    explain: (setting) => (parametersIn(setting) ?? []).flatMap(([, env]) => explainSaltenv(env)),
  },
  { type: ['array', 'object'] },
);

const parametersForm = 'a list of maps, each with one parameter of the git remote';

const saltenvForm = 'a list of maps, each with one of the keys ref, root and mountpoint';

/** Returns all problems of an environment's settings, each with its own location. */
function explainSaltenv(env: Setting): readonly ConfigError[] {
  const parameters = parametersIn(env);
  if (parameters === undefined) {
    return [typeError(env.origin, env.value, saltenvForm)];
  }
  return refusals(saltenvSection, { ...env, value: new Map(parameters) });
}

/**
 * Converts the value of an option that a program has set: a list of environments with their
 * parameters. Returns pairs of the environment's name and its parameters, or `undefined` if the
 * value has another form.
 */
function ofProgram(value: unknown): [string, unknown][] | undefined {
  if (!Array.isArray(value)) return undefined;
  const read = value.map((item): [string, unknown] | undefined => {
    const { saltenv, ...parameters } = Object.fromEntries(entriesOf(item) ?? []);
    return typeof saltenv === 'string' ? [saltenv, parameters] : undefined;
  });
  return read.every((item) => item !== undefined) ? read : undefined;
}

/** Returns the pairs of a map, or of a list of maps, like Salt's `repack_dictlist`. */
function repack(value: unknown): [string, unknown][] | undefined {
  const plain = toPlain(value);
  if (!Array.isArray(plain)) return entriesOf(plain);
  const lists = plain.map(entriesOf);
  const pairs = lists.filter((list) => list !== undefined);
  return pairs.length === lists.length ? pairs.flat() : undefined;
}

const interval = integer(1, 1_000_000_000, { unit: 'seconds' });

/** Parameters that are valid for all remotes, by their names in Salt. */
const shared = {
  ...{ name: text(), user: anyText(), password: anyText(), privkey: anyText(), pubkey: anyText() },
  ...{ insecure_auth: flag(), ssl_verify: flag(), refspecs, base: safeText, root: anyText() },
  ...{
    mountpoint: anyText(),
    fallback: safeText,
    all_saltenvs: safeText,
    update_interval: interval,
  },
} as const;

const ofGitfs: Known = {
  ...shared,
  saltenv_whitelist: names,
  saltenv_blacklist: names,
  disable_saltenv_mapping: flag(),
  ref_types: refTypes,
};

const ofPillar: Known = {
  ...shared,
  env: safeText,
};

type Known = Readonly<Record<string, TUnsafe<GitParameters[string]>>>;

/**
 * Returns the schema of a list of remotes.
 * @param known - parameters that a remote may have
 */
function remotesKind(known: Known): TUnsafe<readonly GitRemote[]> {
  return custom<readonly GitRemote[]>(
    {
      expected: `a list of addresses, or of maps of one address to its parameters (${Object.keys(known).join(', ')})`,
      accept: (value) => {
        const plain = toPlain(value);
        const list: readonly unknown[] = Array.isArray(plain) ? plain : [plain];
        const remotes = list.map((item) => readRemote(item, known));
        return remotes.every((remote) => remote !== undefined) ? remotes : undefined;
      },
      explain: (setting) => remotesIn(setting).flatMap((item) => explainRemote(item, known)),
    },
    { type: ['array', 'string', 'object'] },
  );
}

/** Returns the items of a list of remotes, each with its location. */
export function remotesIn(setting: Setting): readonly Setting[] {
  return Array.isArray(setting.value) ? itemsOf(setting) : [setting];
}

/**
 * Returns all problems of a remote, each with its own location. A location never contains the
 * remote's address, which may contain a password.
 */
function explainRemote(item: Setting, known: Known): readonly ConfigError[] {
  if (readRemote(toPlain(item.value), known) !== undefined) return [];
  const [remote, ...members] = settingsOf(item);
  // A program passes remotes in the form of parsed options.
  const isOfProgram = remote?.[0] === 'id' && typeof remote[1].value === 'string';
  const read = isOfProgram
    ? members.flatMap(([name, member]) => (name === 'parameters' ? settingsOf(member) : []))
    : undefined;
  const others = isOfProgram ? [] : members;
  const refusal = typeError(
    item.origin,
    item.value,
    'an address, or a map with one key: an address, with the parameters as its value',
  );
  if (remote === undefined || others.length > 0) return [refusal];
  const [id, { value }] = remote;
  if (withId(id, {}, []) === undefined) return [refusal];
  const parameters = read ?? parametersIn(remote[1]);
  if (parameters === undefined) {
    return [typeError(item.origin, value, parametersForm)];
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
    return refusals(kind, parameter).map((it) => it.ofPart(found.origin));
  });
  return problems.length > 0 ? problems : [refusal];
}

/** Returns the pairs of a map, or of a list of maps, each with its location. */
function parametersIn(setting: Setting): readonly (readonly [string, Setting])[] | undefined {
  if (repack(setting.value) === undefined) return undefined;
  const maps = remotesIn(setting);
  // Include entries without a value, because they are rejected too.
  return maps.flatMap((map) => (isSettings(map.value) ? [...map.value] : settingsOf(map)));
}

function readRemote(item: unknown, known: Known): GitRemote | undefined {
  if (typeof item === 'string') return withId(item, {}, []);
  const [[id, given] = ['', undefined], ...others] = entriesOf(item) ?? [];
  // A program passes values in the form of parsed options.
  if (id === 'id' && typeof given === 'string') {
    const rest = new Map(others);
    const saltenv = parseValue(saltenvs, rest.get('saltenv') ?? []);
    const parameters = readParameters(entriesOf(rest.get('parameters') ?? {}) ?? [], known);
    return saltenv && parameters && withId(given, parameters, saltenv);
  }
  const pairs = others.length > 0 ? undefined : repack(given);
  if (pairs === undefined) return undefined;
  const saltenv = parseValue(saltenvs, new Map(pairs).get('saltenv') ?? []);
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
    const kind = Object.hasOwn(known, name) ? known[name] : undefined;
    const parsed = kind && parseValue(kind, found);
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

const gitfsRemotes = remotesKind(ofGitfs);

/** Schema of the remotes of `ext_pillar: git`. */
export const gitPillarRemotes = remotesKind(ofPillar);

const allRefs = ['+refs/heads/*:refs/remotes/origin/*', '+refs/tags/*:refs/tags/*'];
const files = { extension: 'files' } as const;
const pillar = { extension: 'pillar' } as const;

/** Salt's options `gitfs_*` and `git_pillar_*`. */
export const gitOptions = {
  gitfsRemotes: option(
    'gitfs_remotes',
    gitfsRemotes,
    [],
    'Repositories: an address, or a map of an address to its parameters.',
    { ...files, isSecret: true },
  ),
  gitfsBase: option(
    'gitfs_base',
    safeText,
    'master',
    'Branch, tag or commit of the environment `base`.',
    files,
  ),
  gitfsRoot: option('gitfs_root', anyText(), '', 'Directory of the repository that is served.', {
    ...files,
    defaultText: 'the whole repository',
  }),
  gitfsMountpoint: option(
    'gitfs_mountpoint',
    anyText(),
    '',
    'Path under which the files are served.',
    files,
  ),
  gitfsFallback: option(
    'gitfs_fallback',
    safeText,
    '',
    'Branch for environments that have no branch in the repository.',
    files,
  ),
  gitfsSaltenv: option(
    'gitfs_saltenv',
    saltenvs,
    [],
    'Branch, root and mountpoint of single environments.',
    files,
  ),
  gitfsSaltenvWhitelist: option(
    'gitfs_saltenv_whitelist',
    names,
    [],
    'Globs or regular expressions of environments that are served.',
    { ...files, defaultText: 'all environments' },
  ),
  gitfsSaltenvBlacklist: option(
    'gitfs_saltenv_blacklist',
    names,
    [],
    'Globs or regular expressions of environments that are not served.',
    files,
  ),
  gitfsDisableSaltenvMapping: option(
    'gitfs_disable_saltenv_mapping',
    flag(),
    false,
    'Whether only configured environments are served.',
    files,
  ),
  gitfsRefTypes: option(
    'gitfs_ref_types',
    refTypes,
    ['branch', 'tag', 'sha'],
    'Kinds of references that become environments.',
    files,
  ),
  gitfsRefspecs: option('gitfs_refspecs', refspecs, allRefs, 'References that are fetched.', files),
  gitfsSslVerify: option(
    'gitfs_ssl_verify',
    flag(),
    true,
    'Whether certificates of servers are verified.',
    files,
  ),
  gitfsUpdateInterval: option(
    'gitfs_update_interval',
    interval,
    60,
    'Time between fetches.',
    files,
  ),
  gitfsUser: option('gitfs_user', anyText(), '', 'User, for `https`.', files),
  gitfsPassword: option('gitfs_password', anyText(), '', 'Password, for `https`.', {
    ...files,
    isSecret: true,
  }),
  gitfsPrivkey: option(
    'gitfs_privkey',
    anyText(),
    '',
    'File of the private key, for `ssh`.',
    files,
  ),
  gitfsInsecureAuth: option(
    'gitfs_insecure_auth',
    flag(),
    false,
    'Whether user and password may be sent over plain `http`.',
    files,
  ),
  gitPillarBase: option(
    'git_pillar_base',
    safeText,
    'master',
    'Branch of the pillar environment `base`.',
    pillar,
  ),
  gitPillarBranch: option(
    'git_pillar_branch',
    safeText,
    'master',
    'Branch of remotes that do not set one.',
    pillar,
  ),
  gitPillarEnv: option('git_pillar_env', safeText, '', 'Environment of the pillar.', {
    ...pillar,
    defaultText: 'the branch',
  }),
  gitPillarRoot: option(
    'git_pillar_root',
    anyText(),
    '',
    'Directory of the repository that is used.',
    { ...pillar, defaultText: 'the whole repository' },
  ),
  gitPillarFallback: option(
    'git_pillar_fallback',
    safeText,
    '',
    'Branch for environments that have no branch in the repository.',
    pillar,
  ),
  gitPillarIncludes: option(
    'git_pillar_includes',
    flag(),
    true,
    'Whether a pillar file may include files from other remotes of the same environment.',
    pillar,
  ),
  gitPillarRefspecs: option(
    'git_pillar_refspecs',
    refspecs,
    allRefs,
    'References that are fetched.',
    pillar,
  ),
  gitPillarSslVerify: option(
    'git_pillar_ssl_verify',
    flag(),
    true,
    'Whether certificates of servers are verified.',
    pillar,
  ),
  gitPillarUpdateInterval: option(
    'git_pillar_update_interval',
    interval,
    60,
    'Time between fetches.',
    pillar,
  ),
  gitPillarUser: option('git_pillar_user', anyText(), '', 'User, for `https`.', pillar),
  gitPillarPassword: option('git_pillar_password', anyText(), '', 'Password, for `https`.', {
    ...pillar,
    isSecret: true,
  }),
  gitPillarPrivkey: option(
    'git_pillar_privkey',
    anyText(),
    '',
    'File of the private key, for `ssh`.',
    pillar,
  ),
  gitPillarInsecureAuth: option(
    'git_pillar_insecure_auth',
    flag(),
    false,
    'Whether user and password may be sent over plain `http`.',
    pillar,
  ),
};

/** Values of Salt's options `gitfs_*` and `git_pillar_*`. */
export type GitOptions = ValuesOf<typeof gitOptions>;

const protocol = oneOf(['https', 'http', 'ssh', 'git', 'file', 'ext']);

/** Schema of the options under `saltbridge: git:`. */
export const gitLimits = section(
  {
    program: text({ default: 'git', description: 'Name or path of the git program.' }),
    protocols: list(protocol, {
      default: ['https', 'http', 'ssh', 'git'],
      description: 'Protocols that remotes may use.',
    }),
    timeout: integer(1, 3600, {
      default: 60,
      unit: 'seconds',
      description: 'Time limit for a fetch.',
    }),
    maxBytes: bytes(1, 2 ** 40, {
      default: 2 ** 30,
      description: 'Size of a repository, and of all its files together.',
    }),
    maxFiles: integer(1, 10_000_000, {
      default: 100_000,
      description: 'Number of files in a branch, and of different files in the repository.',
    }),
    knownHosts: orNull(absolutePath({ description: 'File with the host keys for ssh.' })),
    credentialsFile: orNull(
      absolutePath({
        description: 'File in the format of `git credential-store`, readable only by its owner.',
      }),
    ),
  },
  {
    expected:
      'a map with any of program, protocols (of https, http, ssh, git, file and ext), timeout ' +
      '(seconds), max_bytes, max_files, known_hosts and credentials_file (absolute paths)',
  },
);

/** Permitted uses of git and limits on repositories. */
export type GitLimits = Static<typeof gitLimits>;
