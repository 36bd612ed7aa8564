/**
 * Files of git repositories: branches and tags are environments [salt/fileserver/gitfs.py,
 * salt/utils/gitfs.py].
 */

import type { GitfsRemote } from '#config';
import {
  type FileLists,
  type FileServerBackend,
  type FoundFile,
  type ListRequester,
  MasterError,
  noFiles,
} from '#master';
import { compileWholePattern } from '#minion-protocol';
import { createBoundedMap, trimEnd, unlimitedSteps, WorkBudget } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import { saltLimits } from '../limits.ts';
import type { GitMirror, GitRef, GitSnapshot } from './git-mirror.ts';
import { isCommitId, treeOfRef } from './git-mirror.ts';
import type { GitMirrors } from './git-mirrors.ts';
import { directoryInTree, findInTree, listTree, TreeSizes } from './git-tree.ts';
import { asBackend } from './served-files.ts';

/** Opens the remotes without fetching. The caller starts and closes the mirrors. */
export async function openGitfs(
  remotes: readonly GitfsRemote[],
  mirrors: GitMirrors,
): Promise<FileServerBackend> {
  const opened = await Promise.all(
    remotes.map(async (remote) => new GitfsFiles(remote, await mirrors.open(remote.access))),
  );
  return {
    ...asBackend('gitfs', opened),
    update: () => updateMirrors(new Set(opened.map(({ mirror }) => mirror))),
  };
}

/**
 * Updates all mirrors, even if some fail.
 * @throws MasterError ERR_GIT with the messages of all failures
 */
async function updateMirrors(mirrors: ReadonlySet<GitMirror>): Promise<void> {
  const failures: unknown[] = [];
  await Promise.all(
    [...mirrors].map((mirror) => mirror.update().catch((error: unknown) => failures.push(error))),
  );
  const [first, ...others] = failures;
  if (first === undefined) return;
  if (others.length === 0 || !failures.every((it) => it instanceof MasterError)) throw first;
  throw new MasterError('ERR_GIT', failures.map((it) => it.message).join('; '));
}

/** Serves the files below a directory of a git tree at a mount point. */
export class TreeFiles {
  readonly #lists = createBoundedMap<string, Promise<FileLists>>(saltLimits.gitLists);
  readonly #sizes = new TreeSizes();
  #snapshot: GitSnapshot | undefined;
  readonly #mirror: Pick<GitMirror, 'snapshot' | 'find'>;

  constructor(mirror: Pick<GitMirror, 'snapshot' | 'find'>) {
    this.#mirror = mirror;
  }

  /**
   * Finds a file.
   * @param tree - tree id of a commit
   */
  async find(
    tree: string,
    place: { readonly root: string; readonly mountpoint: string },
    path: string,
  ): Promise<FoundFile | undefined> {
    const { trees } = this.#mirror.snapshot;
    const mountpoint = trimmed(place.mountpoint);
    if (mountpoint !== '' && !path.startsWith(`${mountpoint}/`)) return undefined;
    const inner = mountpoint === '' ? path : path.slice(mountpoint.length + 1);
    const entry = findInTree(trees, tree, `${trimmed(place.root)}/${inner}`);
    const found = entry && (await this.#mirror.find(entry.id));
    if (entry === undefined || found === undefined) return undefined;
    const mode = entry.isExecutable ? 0o100_755 : 0o100_644;
    return { ...found, stat: { ...found.stat, mode } };
  }

  /**
   * Returns the lists of the files and directories in a git tree. The result is the same object
   * until the tree changes or the cache evicts it.
   * @param requester - minion towards whose rate limit the building of the lists counts. Default: it
   * does not count
   */
  async lists(
    tree: string,
    place: { readonly root: string; readonly mountpoint: string },
    requester?: ListRequester,
  ): Promise<FileLists> {
    const { snapshot } = this.#mirror;
    if (this.#snapshot !== snapshot) this.#forgetOthers(snapshot);
    const [root, mountpoint] = [trimmed(place.root), trimmed(place.mountpoint)];
    const mark = `${tree}\0${root}\0${mountpoint}`;
    const directory = directoryInTree(snapshot.trees, tree, root);
    if (directory === undefined) return noFiles;
    const budget = new WorkBudget(unlimitedSteps, requester?.owner);
    if (requester !== undefined && !this.#lists.has(mark)) {
      const { files } = await this.#sizes.sizeOf(snapshot.trees, directory, budget);
      await requester.pay(files);
    }
    // Another request may have built the lists while this one waited.
    const lists = this.#lists.get(mark) ?? listTree(snapshot.trees, directory, mountpoint, budget);
    this.#lists.set(mark, lists);
    return lists;
  }

  /**
   * Removes the cached lists of trees that are not in the snapshot. Lists of unchanged trees stay
   * in the cache.
   */
  #forgetOthers(snapshot: GitSnapshot): void {
    this.#snapshot = snapshot;
    const trees = new Set(snapshot.refs.values());
    for (const mark of [...this.#lists.keys()]) {
      if (!trees.has(mark.split('\0')[0] ?? '')) this.#lists.delete(mark);
    }
  }
}

/** Removes `salt://` and outer slashes from a directory: `salt://x/` becomes `x`. */
function trimmed(place: string): string {
  return trimEnd(place.replace(/^(?:salt:\/\/)?\/*/, ''), '/');
}

/** Backend of one remote. */
class GitfsFiles implements FileServerBackend {
  readonly name = 'gitfs';
  readonly mirror: GitMirror;
  readonly #remote: GitfsRemote;
  readonly #files: TreeFiles;
  readonly #whitelist: readonly ((saltenv: string) => boolean)[];
  readonly #blacklist: readonly ((saltenv: string) => boolean)[];
  #envs: { readonly of: GitSnapshot; readonly names: readonly string[] } | undefined;

  constructor(remote: GitfsRemote, mirror: GitMirror) {
    this.#remote = remote;
    this.mirror = mirror;
    this.#files = new TreeFiles(mirror);
    const { refTypes, saltenvWhitelist, saltenvBlacklist } = remote;
    this.#whitelist = saltenvWhitelist.map(compileEnvPattern);
    this.#blacklist = saltenvBlacklist.map(compileEnvPattern);
    const commits = refTypes.includes('sha') ? this.#names().filter(isCommitId) : [];
    mirror.want((ref) => refTypes.includes(ref.kind) && this.#isServed(ref), commits);
  }

  envs(): readonly string[] {
    const { snapshot } = this.mirror;
    if (this.#envs?.of !== snapshot) this.#envs = { of: snapshot, names: this.#envsNow() };
    return this.#envs.names;
  }

  #envsNow(): string[] {
    const { base, saltenv, disableSaltenvMapping, allSaltenvs } = this.#remote;
    const named = [...saltenv].flatMap(([env, { ref }]) => (ref === undefined ? [] : [env]));
    const mapped = new Set([...saltenv.values()].map(({ ref }) => ref));
    const found = [...this.mirror.snapshot.refs.keys()].flatMap((key) => {
      const name = key.slice(key.indexOf(' ') + 1);
      if (name === base) return ['base'];
      // As in Salt, a branch that the configuration maps to an environment is served only under the
      // name of this environment.
      if (mapped.has(name)) return [];
      return disableSaltenvMapping || allSaltenvs !== undefined || isCommitId(name) ? [] : [name];
    });
    const envs = new Set([...found, ...named]);
    return [...envs].filter((env) => this.#treeOf(env) !== undefined);
  }

  async find(path: string, saltenv: string): Promise<FoundFile | undefined> {
    const tree = this.#treeOf(saltenv);
    return tree === undefined ? undefined : this.#files.find(tree, this.#placeOf(saltenv), path);
  }

  async lists(saltenv: string, requester?: ListRequester): Promise<FileLists> {
    const tree = this.#treeOf(saltenv);
    if (tree === undefined) return noFiles;
    return this.#files.lists(tree, this.#placeOf(saltenv), requester);
  }

  async close(): Promise<void> {
    // `GitMirrors` closes the mirror, because several backends may share it.
  }

  /** Returns the branches, tags and commits that the configuration names. */
  #names(): string[] {
    const { base, fallback, allSaltenvs = '', saltenv } = this.#remote;
    const refs = [...saltenv.values()].flatMap(({ ref }) => ref ?? []);
    return [base, fallback, allSaltenvs, ...refs].filter((name) => name !== '');
  }

  #isServed({ name }: GitRef): boolean {
    const { disableSaltenvMapping, allSaltenvs } = this.#remote;
    if (this.#names().includes(name)) return true;
    return !disableSaltenvMapping && allSaltenvs === undefined && this.#isExposed(name);
  }

  #isExposed(saltenv: string): boolean {
    if (this.#blacklist.some((matches) => matches(saltenv))) return false;
    return this.#whitelist.length === 0 || this.#whitelist.some((matches) => matches(saltenv));
  }

  #placeOf(saltenv: string): { readonly root: string; readonly mountpoint: string } {
    const { root, mountpoint, saltenv: own } = this.#remote;
    return { root, mountpoint, ...own.get(saltenv) };
  }

  /** Returns the tree id of an environment [salt/utils/gitfs.py get_tree]. */
  #treeOf(saltenv: string): string | undefined {
    if (!this.#isExposed(saltenv)) return undefined;
    const ref = this.#refOf(saltenv);
    if (ref === undefined) return undefined;
    const { fallback, refTypes } = this.#remote;
    return treeOfRef(this.mirror.snapshot, [ref, fallback], refTypes);
  }

  #refOf(saltenv: string): string | undefined {
    const { base, saltenv: own, allSaltenvs, disableSaltenvMapping } = this.#remote;
    if (allSaltenvs !== undefined) return allSaltenvs;
    if (saltenv === 'base') return base;
    return own.get(saltenv)?.ref ?? (disableSaltenvMapping ? undefined : saltenv);
  }
}

/**
 * Compiles a pattern of environments. As in Salt, a name matches if the pattern matches the whole
 * name as a glob or as a regular expression.
 */
function compileEnvPattern(pattern: string): (name: string) => boolean {
  const tests = [(name: string) => name === pattern, compileGlob(pattern)];
  try {
    tests.push(compileWholePattern(pattern));
  } catch {
    // The pattern is a glob but not a valid regular expression.
  }
  return (name) => tests.some((test) => test(name));
}
