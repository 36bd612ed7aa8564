/**
 * Remotes of git repositories. Common options are the defaults of each remote. Addresses are
 * checked against the permitted protocols.
 */

import { ConfigError, type OptionOrigin } from './config-error.ts';
import { withoutCredentials } from './credentials.ts';
import { pillarRemotesIn } from './ext-pillar.ts';
import type {
  GitAccess,
  GitOptions,
  GitParameters,
  GitRefType,
  GitRemote,
  GitSaltenv,
} from './git-options.ts';
import { remotesIn } from './git-options.ts';
import type { MasterConfig } from './options.ts';
import { originOfSetting, type Settings } from './settings.ts';

/** Settings for serving files from a remote. */
export interface GitfsRemote {
  readonly id: string;
  readonly access: GitAccess;
  readonly base: string;
  readonly root: string;
  readonly mountpoint: string;
  readonly fallback: string;
  readonly allSaltenvs: string | undefined;
  readonly refTypes: readonly GitRefType[];
  readonly disableSaltenvMapping: boolean;
  readonly saltenvWhitelist: readonly string[];
  readonly saltenvBlacklist: readonly string[];
  /**
   * Settings by environment: those of this remote, then the common settings of all remotes. If both
   * set the same option, the remote's value is used.
   */
  readonly saltenv: ReadonlyMap<string, GitSaltenv>;
}

/** Settings for reading pillar from a remote. */
export interface GitPillarRemote {
  readonly id: string;
  readonly access: GitAccess;
  /** Branch to read. `__env__` selects the branch of the requested environment. */
  readonly branch: string;
  /**
   * Environment whose pillar the remote provides. `__env__`: the remote provides the pillar of each
   * requested environment.
   */
  readonly env: string;
  /** Branch for the environment `base`, if `branch` is `__env__`. */
  readonly base: string;
  readonly root: string;
  readonly mountpoint: string;
  readonly fallback: string;
  readonly allSaltenvs: string | undefined;
}

/** Parameters of one remote, with the common options as defaults. */
class Parameters {
  readonly #own: GitParameters;

  constructor({ parameters }: GitRemote) {
    this.#own = parameters;
  }

  text(name: string, general: string): string {
    const value = this.#own[name];
    return typeof value === 'string' ? value : general;
  }

  optional(name: string): string | undefined {
    const value = this.#own[name];
    return typeof value === 'string' && value !== '' ? value : undefined;
  }

  flag(name: string, general: boolean): boolean {
    const value = this.#own[name];
    return typeof value === 'boolean' ? value : general;
  }

  number(name: string, general: number): number {
    const value = this.#own[name];
    return typeof value === 'number' ? value : general;
  }

  list(name: string, general: readonly string[]): readonly string[] {
    const value = this.#own[name];
    return Array.isArray(value) ? value.map(String) : general;
  }
}

/** Returns the remotes of `gitfs_remotes`. */
export function gitfsRemotesOf(config: GitOptions): GitfsRemote[] {
  return config.gitfsRemotes.map((remote) => {
    const own = new Parameters(remote);
    const general = new Map(config.gitfsSaltenv.map((it) => [it.saltenv, it]));
    const saltenv = new Map([
      ...general,
      ...remote.saltenv.map((it): [string, GitSaltenv] => [
        it.saltenv,
        { ...general.get(it.saltenv), ...it },
      ]),
    ]);
    const types = own.list('ref_types', config.gitfsRefTypes);
    return {
      id: remote.id,
      access: {
        url: remote.id,
        user: own.text('user', config.gitfsUser),
        password: own.text('password', config.gitfsPassword),
        privkey: own.text('privkey', config.gitfsPrivkey),
        sslVerify: own.flag('ssl_verify', config.gitfsSslVerify),
        refspecs: own.list('refspecs', config.gitfsRefspecs),
        updateInterval: own.number('update_interval', config.gitfsUpdateInterval),
      },
      base: saltenv.get('base')?.ref ?? own.text('base', config.gitfsBase),
      root: own.text('root', config.gitfsRoot),
      mountpoint: own.text('mountpoint', config.gitfsMountpoint),
      fallback: own.text('fallback', config.gitfsFallback),
      allSaltenvs: own.optional('all_saltenvs'),
      refTypes: (['branch', 'tag', 'sha'] as const).filter((type) => types.includes(type)),
      disableSaltenvMapping: own.flag('disable_saltenv_mapping', config.gitfsDisableSaltenvMapping),
      saltenvWhitelist: own.list('saltenv_whitelist', config.gitfsSaltenvWhitelist),
      saltenvBlacklist: own.list('saltenv_blacklist', config.gitfsSaltenvBlacklist),
      saltenv,
    };
  });
}

/** Returns the remotes of one `git` entry of `ext_pillar`. */
export function gitPillarRemotesOf(
  remotes: readonly GitRemote[],
  config: GitOptions,
): GitPillarRemote[] {
  return remotes.map((remote) => {
    const own = new Parameters(remote);
    const [, named, place] = /^(\S+)\s+(\S.*)$/.exec(remote.id) ?? [];
    const branch = named ?? config.gitPillarBranch;
    const env = own.text('env', config.gitPillarEnv);
    const base = own.text('base', config.gitPillarBase);
    return {
      id: remote.id,
      access: {
        url: place ?? remote.id,
        user: own.text('user', config.gitPillarUser),
        password: own.text('password', config.gitPillarPassword),
        privkey: own.text('privkey', config.gitPillarPrivkey),
        sslVerify: own.flag('ssl_verify', config.gitPillarSslVerify),
        refspecs: own.list('refspecs', config.gitPillarRefspecs),
        updateInterval: own.number('update_interval', config.gitPillarUpdateInterval),
      },
      branch,
      env: env === '' ? (branch === base ? 'base' : branch) : env,
      base,
      root: own.text('root', config.gitPillarRoot),
      mountpoint: own.text('mountpoint', ''),
      fallback: own.text('fallback', config.gitPillarFallback),
      allSaltenvs: own.optional('all_saltenvs'),
    };
  });
}

/** Returns the protocol that git would use for an address. */
function gitProtocol(url: string): string {
  const [, helper] = /^([\w+.-]+)::/.exec(url) ?? [];
  if (helper !== undefined) return helper.toLowerCase();
  const [, scheme] = /^([\w+.-]+):\/\//.exec(url) ?? [];
  if (scheme !== undefined) return scheme.toLowerCase().replace(/^git\+ssh$|^ssh\+git$/, 'ssh');
  const isShort = /^[^/:]+:/.test(url);
  return isShort ? 'ssh' : 'file';
}

/** Returns an error for each remote that the master must not fetch. */
export function gitRemoteProblems(
  config: MasterConfig,
  settings: Settings,
): readonly ConfigError[] {
  const { git, gitfsInsecureAuth, gitPillarInsecureAuth, fileserverBackend } = config;
  const protocols: readonly string[] = git.protocols;
  const problems: ConfigError[] = [];
  const refuse = (origin: OptionOrigin, problem: string): void => {
    problems.push(new ConfigError('ERR_OPTION_TYPE', origin, problem));
  };
  const check = (
    origin: OptionOrigin,
    { access }: { access: GitAccess },
    isInsecureFine: boolean,
  ): void => {
    const { url, user, password } = access;
    const place = withoutCredentials(url);
    const protocol = gitProtocol(url);
    if (!protocols.includes(protocol)) {
      refuse(
        origin,
        `${place}: the protocol ${protocol} is not permitted: saltbridge: git: protocols lists ${git.protocols.join(', ')}`,
      );
    }
    if ((user === '') !== (password === '') && protocol.startsWith('http')) {
      refuse(origin, `${place}: user and password must be set together`);
    }
    if (password !== '' && protocol === 'http' && !isInsecureFine) {
      refuse(
        origin,
        `${place}: a password would be sent over http: use https, or set insecure_auth: true`,
      );
    }
  };
  const insecure = (remote: GitRemote | undefined, general: boolean): boolean =>
    remote === undefined ? general : new Parameters(remote).flag('insecure_auth', general);
  if (fileserverBackend.includes('gitfs')) {
    const setting = settings.get('gitfs_remotes');
    const items = setting === undefined ? [] : remotesIn(setting);
    for (const [index, remote] of gitfsRemotesOf(config).entries()) {
      const origin = items[index]?.origin ?? originOfSetting(settings, 'gitfs_remotes');
      check(origin, remote, insecure(config.gitfsRemotes[index], gitfsInsecureAuth));
    }
  }
  const places = pillarRemotesIn(settings).values();
  for (const entry of config.extPillar) {
    if (entry.module !== 'git') continue;
    for (const [index, remote] of gitPillarRemotesOf(entry.remotes, config).entries()) {
      const origin = places.next().value ?? originOfSetting(settings, 'ext_pillar');
      check(origin, remote, insecure(entry.remotes[index], gitPillarInsecureAuth));
    }
  }
  return problems;
}
