/**
 * Serves files of the master's directories, like Salt's `roots` backend [salt/fileserver/roots.py].
 */

import { stat } from 'node:fs/promises';
import type { Logger } from 'pino';
import { expandGlob } from '#config';
import {
  createSilentLogger,
  type FileLists,
  type FileServerBackend,
  type FoundFile,
  noFiles,
} from '#master';
import { createBoundedMap, trimEnd } from '#runtime';
import { saltLimits } from '../limits.ts';
import { DiskFiles, HiddenDirectories } from './disk-files.ts';
import { LiveLists } from './live-lists.ts';
import { compileIgnore, type IgnoreRules } from './walk-roots.ts';

/** Options of the backend. A `MasterConfig` contains all of them. */
export interface RootsOptions extends IgnoreRules {
  /**
   * `file_roots`: absolute directories by environment; globs are allowed. The directories of
   * `__env__` serve every environment that is not listed. In their paths, `__env__` is replaced by
   * the environment's name.
   */
  readonly fileRoots: Readonly<Record<string, readonly string[]>>;
  /** `fileserver_followsymlinks`: whether links to directories are followed. */
  readonly fileserverFollowsymlinks: boolean;
  /** `fileserver_ignoresymlinks`: whether links are omitted from the lists. */
  readonly fileserverIgnoresymlinks: boolean;
  /** `fileserver_list_cache_time`: interval between checks of the directories, in seconds. */
  readonly fileserverListCacheTime: number;
}

/** Optional dependencies of the backend. */
export interface RootsDeps {
  /** Directories that are never served, even below a root. Default: none. */
  readonly hidden?: readonly string[];
  /** Logger of the backend. Default: no logging. */
  readonly logger?: Logger;
}

const anyEnv = '__env__';

/** Opens file roots and starts to walk them. The caller closes them. */
export async function openRoots(
  options: RootsOptions,
  { hidden = [], logger = createSilentLogger() }: RootsDeps = {},
): Promise<FileServerBackend> {
  const roots = new Map<string, readonly string[]>();
  for (const [env, patterns] of Object.entries(options.fileRoots)) {
    const places = await Promise.all(patterns.map(expandRoot));
    roots.set(env, places.flat());
  }
  return new Roots(roots, options, await HiddenDirectories.open(hidden), logger);
}

/**
 * Returns the directories that match a root with globs. Returns a root without globs as the only
 * element, even if the directory does not exist yet.
 */
export async function expandRoot(pattern: string): Promise<string[]> {
  if (/[*?[]/.test(pattern)) return expandGlob(pattern);
  return [pattern.slice(0, 1) + trimEnd(pattern.slice(1), '/')];
}

class Roots implements FileServerBackend {
  readonly name = 'roots';
  readonly #roots: ReadonlyMap<string, readonly string[]>;
  readonly #options: RootsOptions;
  readonly #hidden: HiddenDirectories;
  readonly #log: Logger;
  readonly #isIgnored: (path: string) => boolean;
  readonly #files: DiskFiles;
  readonly #lists = new Map<string, LiveLists>();
  /**
   * File lists of environments that exist only through the root `__env__`. The key contains the
   * directories of an environment, so that environments with the same directories share their
   * lists. Otherwise, minions could create any number of lists, because they may name any
   * environment.
   */
  readonly #otherLists = createBoundedMap<string, LiveLists>(saltLimits.otherEnvironments, {
    dispose: (lists) => this.#closeLists(lists),
  });
  readonly #finding = new Map<string, Promise<FoundFile | undefined>>();

  constructor(
    roots: ReadonlyMap<string, readonly string[]>,
    options: RootsOptions,
    hidden: HiddenDirectories,
    log: Logger,
  ) {
    this.#roots = roots;
    this.#options = options;
    this.#hidden = hidden;
    this.#log = log;
    this.#isIgnored = compileIgnore(options);
    this.#files = new DiskFiles(hidden);
    for (const [env, places] of roots) this.#lists.set(env, this.#open(places));
  }

  envs(): readonly string[] {
    return [...this.#roots.keys()];
  }

  /** Finds a file. Concurrent requests for the same file share the result. */
  async find(path: string, saltenv: string): Promise<FoundFile | undefined> {
    const mark = `${saltenv}\0${path}`;
    const underWay = this.#finding.get(mark);
    if (underWay !== undefined) return underWay;
    const finding = this.#find(path, saltenv).finally(() => this.#finding.delete(mark));
    this.#finding.set(mark, finding);
    return finding;
  }

  async lists(saltenv: string): Promise<FileLists> {
    const own = this.#lists.get(saltenv);
    if (own !== undefined) return own.current();
    const places = await this.#existingPlacesOf(saltenv);
    if (places.length === 0) return noFiles;
    const known = this.#sharedLists(places);
    return known === undefined ? this.#openOther(places) : known.current();
  }

  async refresh(saltenvs?: readonly string[]): Promise<readonly string[]> {
    await this.#hidden.refresh();
    const names = saltenvs ?? [...this.#lists.keys()];
    const wanted = new Map<string, LiveLists>();
    for (const name of names) {
      const lists = this.#lists.get(name) ?? this.#sharedLists(await this.#existingPlacesOf(name));
      if (lists !== undefined) wanted.set(name, lists);
    }
    const others = saltenvs === undefined ? this.#otherLists.values() : [];
    const all = new Set([...wanted.values(), ...others]);
    await Promise.all([...all].map((lists) => lists.refresh()));
    return [...wanted.keys()];
  }

  async close(): Promise<void> {
    const all = [...this.#lists.values(), ...this.#otherLists.values()];
    await Promise.all(all.map((lists) => lists.close()));
  }

  async #find(path: string, saltenv: string): Promise<FoundFile | undefined> {
    for (const root of this.#placesOf(saltenv)) {
      if (this.#isIgnored(`${root}/${path}`)) continue;
      const found = await this.#files.find(root, path);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /**
   * Returns the roots of an environment. A name from a minion is inserted into a path only if it is
   * a single path segment [THREATS C-40, C-50].
   */
  #placesOf(saltenv: string): readonly string[] {
    const own = this.#roots.get(saltenv);
    if (own !== undefined) return own;
    const isSegment = /^[^/\0]{1,255}$/.test(saltenv) && saltenv !== '.' && saltenv !== '..';
    const places = isSegment ? (this.#roots.get(anyEnv) ?? []) : [];
    return places.map((place) => place.replaceAll(anyEnv, () => saltenv));
  }

  /**
   * Returns the roots of an environment: those of its own directories that exist, and the
   * directories that all environments share. Environments without existing directories of their own
   * therefore have the same roots.
   */
  async #existingPlacesOf(saltenv: string): Promise<readonly string[]> {
    const shared = new Set(this.#roots.get(anyEnv));
    const existing: string[] = [];
    for (const place of this.#placesOf(saltenv)) {
      if (shared.has(place) || (await isDirectory(place))) existing.push(place);
    }
    return existing;
  }

  /** Returns the file lists that are already open for these directories, or `undefined`. */
  #sharedLists(places: readonly string[]): LiveLists | undefined {
    const key = keyOf(places);
    const isWhole = key === keyOf(this.#roots.get(anyEnv) ?? []);
    return isWhole ? this.#lists.get(anyEnv) : this.#otherLists.get(key);
  }

  #open(roots: readonly string[]): LiveLists {
    const { fileserverFollowsymlinks, fileserverIgnoresymlinks } = this.#options;
    const lists = new LiveLists({
      roots,
      walk: {
        followsSymlinks: fileserverFollowsymlinks,
        ignoresSymlinks: fileserverIgnoresymlinks,
        isIgnored: this.#isIgnored,
        hidden: this.#hidden,
      },
      checkMs: this.#options.fileserverListCacheTime * 1000,
      log: this.#log,
    });
    lists
      .current()
      .catch((err: unknown) => this.#log.error({ err }, 'cannot list the files in file_roots'));
    return lists;
  }

  /**
   * Returns the file lists of an environment that exists only through the root `__env__`. Minions
   * may name any environment, so empty lists are not cached.
   */
  async #openOther(places: readonly string[]): Promise<FileLists> {
    const key = keyOf(places);
    const opened = this.#open(places);
    this.#otherLists.set(key, opened);
    const lists = await opened.current();
    if (lists.files.length > 0 || lists.dirs.length > 0) return lists;
    if (this.#otherLists.peek(key) === opened) this.#otherLists.delete(key);
    return noFiles;
  }

  #closeLists(lists: LiveLists): void {
    lists
      .close()
      .catch((err: unknown) => this.#log.error({ err }, 'cannot stop watching file_roots'));
  }
}

function keyOf(places: readonly string[]): string {
  return places.join('\0');
}

async function isDirectory(place: string): Promise<boolean> {
  try {
    return (await stat(place)).isDirectory();
  } catch {
    // The walk would not find anything in it either.
    return false;
  }
}
