/**
 * Pillar files from git repositories, like Salt's `ext_pillar: git` [salt/pillar/git_pillar.py].
 */

import { type GitPillarRemote, withoutCredentials } from '#config';
import {
  type FileLists,
  type FileServerBackend,
  type FoundFile,
  noFiles,
  type PillarRequest,
} from '#master';
import { type GitMirror, isCommitId, treeOfRef } from '../file-trees/git-mirror.ts';
import type { GitMirrors } from '../file-trees/git-mirrors.ts';
import { TreeFiles } from '../file-trees/gitfs.ts';
import { asBackend } from '../file-trees/served-files.ts';
import type { PillarSource } from '../render/pillar-source.ts';
import type { ExtPillarLayer } from './ext-pillar.ts';

const anyEnv = '__env__';

/** A configured pillar remote with its local mirror and the files in it. */
interface OpenRemote {
  readonly remote: GitPillarRemote;
  readonly mirror: GitMirror;
  readonly files: TreeFiles;
}

export interface GitPillarDeps {
  readonly mirrors: GitMirrors;
  /** `git_pillar_includes`: whether SLS of one remote can include SLS of the other remotes. */
  readonly includes: boolean;
  /** `pillarenv` of the configuration. */
  readonly pillarenv: string | null;
  /**
   * Opens the pillar in the files of a remote. `env` is the environment whose pillar the remote
   * provides. `__env__` stands for all environments.
   */
  readonly openPillar: (backend: FileServerBackend, env: string) => ForgettingPillar;
}

/** A pillar source with cached pillars that can be deleted. */
interface ForgettingPillar extends PillarSource {
  forget(id: string): void;
}

/**
 * Opens the remotes of one `git` entry of `ext_pillar`. Each remote is a layer that is merged over
 * the previous ones.
 */
export async function openGitPillar(
  remotes: readonly GitPillarRemote[],
  { mirrors, includes, pillarenv, openPillar }: GitPillarDeps,
): Promise<ExtPillarLayer[]> {
  const opened = await Promise.all(remotes.map((remote) => openRemote(remote, mirrors)));
  // A remote with a mount point has no pillar of its own. It only provides files that others
  // include.
  const compiled = opened.filter(({ remote }) => remote.mountpoint === '');
  return compiled.map((own) => {
    const others = includes ? opened.filter((it) => it !== own) : [];
    const backend = asBackend(
      'git',
      [own, ...others].map((it) => filesOf(it, own === it ? undefined : own)),
    );
    const pillar = openPillar(backend, own.remote.env);
    return {
      name: 'git',
      answer: async (request: PillarRequest) => {
        const asked = request.pillarenv ?? pillarenv ?? undefined;
        const env = envOf(own.remote, asked ?? request.saltenv);
        if (asked !== undefined && asked !== env) return undefined;
        if (treeOf(own, env) === undefined) return undefined;
        return pillar.provide({ ...request, pillarenv: env });
      },
      forget: (id) => pillar.forget(id),
    };
  });
}

async function openRemote(remote: GitPillarRemote, mirrors: GitMirrors): Promise<OpenRemote> {
  const mirror = await mirrors.open(remote.access);
  const { branch, base, fallback, allSaltenvs = '' } = remote;
  const named = [branch === anyEnv ? base : branch, fallback, allSaltenvs];
  const isAny = branch === anyEnv && allSaltenvs === '';
  mirror.want(
    ({ kind, name }) => kind !== 'sha' && (isAny || named.includes(name)),
    named.filter(isCommitId),
  );
  return { remote, mirror, files: new TreeFiles(mirror) };
}

/**
 * Returns the environment whose pillar a remote provides.
 * @param asked - environment that the minion requests; used if the remote serves all environments
 */
function envOf({ env }: GitPillarRemote, asked: string | undefined): string {
  return env === anyEnv ? (asked ?? 'base') : env;
}

/** Returns the tree id of the branch that belongs to an environment. */
function treeOf({ remote, mirror }: OpenRemote, env: string): string | undefined {
  const { branch, base, fallback, allSaltenvs } = remote;
  const ofEnv = allSaltenvs ?? (env === 'base' ? base : env);
  return treeOfRef(mirror.snapshot, [branch === anyEnv ? ofEnv : branch, fallback]);
}

/**
 * Returns the files of the remote `opened` as a file server backend.
 *
 * @param includer - another remote, whose SLS include the files. The files are then visible only in
 * environments for which `opened` provides pillar. `undefined`: `opened` itself uses the files
 */
function filesOf(opened: OpenRemote, includer: OpenRemote | undefined): FileServerBackend {
  const { remote, files } = opened;
  const treeIn = (env: string): string | undefined => {
    if (includer !== undefined && envOf(remote, env) !== env) return undefined;
    return treeOf(opened, env);
  };
  return {
    name: 'git',
    envs: () => [],
    find: async (path: string, env: string): Promise<FoundFile | undefined> => {
      const tree = treeIn(env);
      return tree === undefined ? undefined : files.find(tree, remote, path);
    },
    lists: async (env: string): Promise<FileLists> => {
      const tree = treeIn(env);
      return tree === undefined ? noFiles : files.lists(tree, remote);
    },
    close: async () => {},
  };
}

/** Fetches pillar remotes on request of an operator. */
export interface GitPillarUpdater {
  /**
   * Fetches remotes.
   * @param wanted - selects remotes by branch and address. `repo` may omit user and password.
   * Default: all remotes
   * @returns results by the address of the remote, without user and password. `true`: the remote
   * has changed; `false`: it has not changed; an `Error`: it could not be fetched
   */
  update(wanted: {
    readonly branch?: string | undefined;
    readonly repo?: string | undefined;
  }): Promise<ReadonlyMap<string, boolean | Error>>;
}

/**
 * Creates the updater of pillar remotes.
 * @param remotes - remotes of all `git` entries of `ext_pillar`
 */
export function gitPillarUpdater(
  remotes: readonly GitPillarRemote[],
  mirrors: GitMirrors,
): GitPillarUpdater {
  return {
    update: async ({ branch, repo }) => {
      const wanted = remotes.filter(
        (it) =>
          (branch === undefined || branch === it.branch) &&
          (repo === undefined || namesOf(it).includes(repo)),
      );
      const results = wanted.map(async ({ id, access }): Promise<[string, boolean | Error]> => {
        const mirror = await mirrors.open(access);
        const result = await mirror
          .update()
          .catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))));
        return [withoutCredentials(id), result];
      });
      return new Map(await Promise.all(results));
    },
  };
}

/**
 * Returns all names of a remote that operators can use: as configured and as shown in messages,
 * with and without the branch.
 */
function namesOf({ id, access: { url } }: GitPillarRemote): readonly string[] {
  return [id, url, withoutCredentials(id), withoutCredentials(url)];
}
