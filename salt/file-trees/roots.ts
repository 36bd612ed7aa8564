/** Files below directories of the master, as Salt's `roots` serves them [salt/fileserver/roots.py]. */

import { type Dirent, type FSWatcher, watch } from 'node:fs';
import { readdir, readlink, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { expandGlob } from '#config';
import {
  createSilentLogger,
  type FileLists,
  type FileServerBackend,
  type FoundFile,
  noFiles,
} from '#master';
import { compileSearchPattern, packWire, type WireMap } from '#minion-protocol';
import { compileGlob } from '#template/python/fnmatch.ts';
import { DiskFiles, HiddenDirectories, ifPresent, isBelow } from './disk-files.ts';

/** Which paths are as if they were not there. */
interface IgnoreRules {
  /** `file_ignore_glob`: matched against the whole path. */
  readonly fileIgnoreGlob: readonly string[];
  /** `file_ignore_regex`: matched anywhere in the path. */
  readonly fileIgnoreRegex: readonly string[];
}

/**
 * Whether a path is ignored. Lists ask with the path below the root, requests for a file with
 * that on the disk, as in Salt [salt.fileserver.is_file_ignored].
 */
function compileIgnore(rules: IgnoreRules): (path: string) => boolean {
  const tests = [
    ...rules.fileIgnoreRegex.map(compileSearchPattern),
    ...rules.fileIgnoreGlob.map(compileGlob),
  ];
  return (path) => tests.some((test) => test(path));
}

interface Watched {
  readonly identity: string;
  readonly watcher: FSWatcher;
}

/**
 * Reports that a name was added to or removed from one of many directories. Each has a watch of its
 * own: with `recursive`, Node.js reads every directory a second time and does not follow links.
 */
class DirectoryWatch {
  readonly #onChange: () => void;
  readonly #onRefused: (error: unknown) => void;
  readonly #watched = new Map<string, Watched>();
  #isClosed = false;

  /** @param onRefused told when the system gives no more watches */
  constructor(onChange: () => void, onRefused: (error: unknown) => void) {
    this.#onChange = onChange;
    this.#onRefused = onRefused;
  }

  /** Watches a directory from now on. @param identity tells it from another of the same path */
  add(directory: string, identity: string): void {
    const known = this.#watched.get(directory);
    if (this.#isClosed || known?.identity === identity) return;
    known?.watcher.close();
    this.#watched.delete(directory);
    try {
      const watcher = watch(directory, { persistent: false }, (type) => {
        // `change` is the content of a file, which no list depends on.
        if (type === 'rename') this.#onChange();
      });
      watcher.on('error', this.#onChange);
      this.#watched.set(directory, { identity, watcher });
    } catch (error) {
      this.#onRefused(error);
    }
  }

  /** Ends the watches of all other directories. */
  keepOnly(directories: ReadonlyMap<string, unknown>): void {
    for (const [directory, { watcher }] of this.#watched) {
      if (directories.has(directory)) continue;
      watcher.close();
      this.#watched.delete(directory);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.keepOnly(new Map());
  }
}

// Listing an environment [salt/fileserver/roots.py _file_lists].

/** How roots are walked. */
export interface WalkOptions {
  /** `fileserver_followsymlinks`: look into directories that links lead to. */
  readonly followsSymlinks: boolean;
  /** `fileserver_ignoresymlinks`: list no links. */
  readonly ignoresSymlinks: boolean;
  /** Told by the path below the root. */
  readonly isIgnored: (path: string) => boolean;
  readonly hidden: HiddenDirectories;
  /** Called with each directory before it is read. */
  readonly onDirectory: (directory: string, identity: string) => void;
}

/** What a walk found. */
export interface Tree {
  readonly lists: FileLists;
  /** By absolute path: what changes with each name that comes or goes. */
  readonly directories: ReadonlyMap<string, string>;
  /** There was more than {@link maxEntries}. */
  readonly isCut: boolean;
}

/** Names that one environment may have. */
const maxEntries = 250_000;

/** Walks the roots, absolute paths, in order. A root that is not there has nothing in it. */
export async function walkRoots(roots: readonly string[], options: WalkOptions): Promise<Tree> {
  const walk = new Walk(options);
  for (const root of roots) await walk.root(root);
  return walk.tree();
}

/** What a directory is by itself and by its content; `undefined` if there is none. */
async function directoryState(
  directory: string,
): Promise<{ readonly identity: string; readonly fingerprint: string } | undefined> {
  const stats = await ifPresent(stat(directory, { bigint: true }));
  if (!stats?.isDirectory()) return undefined;
  const identity = `${stats.dev} ${stats.ino} ${stats.birthtimeNs}`;
  return { identity, fingerprint: `${identity} ${stats.mtimeNs}` };
}

interface Directory {
  /** Absolute, by the names that lead there from the root. */
  readonly path: string;
  /** Below the root; empty for the root itself. */
  readonly relative: string;
  /** Without links, of it and of those above it. */
  readonly reals: readonly string[];
}

class Walk {
  readonly #options: WalkOptions;
  readonly #files = new Set<string>();
  readonly #dirs = new Set<string>();
  readonly #emptyDirs = new Set<string>();
  readonly #links = new Map<string, string>();
  readonly #directories = new Map<string, string>();
  #realRoot = '';

  constructor(options: WalkOptions) {
    this.#options = options;
  }

  async root(root: string): Promise<void> {
    this.#directories.set(root, 'absent');
    const real = await ifPresent(realpath(root));
    if (real === undefined || this.#options.hidden.contain(real)) return;
    this.#realRoot = real;
    await this.#enter({ path: root, relative: '', reals: [real] });
  }

  tree(): Tree {
    return {
      lists: {
        files: [...this.#files].sort(),
        dirs: [...this.#dirs].sort(),
        emptyDirs: [...this.#emptyDirs].sort(),
        links: new Map([...this.#links].sort()),
      },
      directories: this.#directories,
      isCut: this.#isFull(),
    };
  }

  #isFull(): boolean {
    return this.#files.size + this.#dirs.size >= maxEntries;
  }

  async #enter(directory: Directory): Promise<void> {
    const state = await directoryState(directory.path);
    if (state === undefined) return;
    // Watched and stamped before it is read: what comes in between is a change.
    this.#options.onDirectory(directory.path, state.identity);
    this.#directories.set(directory.path, state.fingerprint);
    const entries = await ifPresent(readdir(directory.path, { withFileTypes: true }));
    if (entries === undefined) return;
    if (entries.length === 0) this.#addEmpty(directory.relative);
    await Promise.all(entries.map((entry) => this.#entry(directory, entry)));
  }

  async #entry(parent: Directory, entry: Dirent): Promise<void> {
    // Node puts U+FFFD where a name is not UTF-8; such a name cannot be sent [WIRE 2.1].
    if (this.#isFull() || entry.name.includes('\ufffd')) return;
    const relative = parent.relative === '' ? entry.name : `${parent.relative}/${entry.name}`;
    if (entry.isSymbolicLink()) return this.#link(parent, entry.name, relative);
    if (entry.isFile()) this.#add(this.#files, relative);
    if (!entry.isDirectory()) return;
    const real = path.join(parent.reals[0] ?? '', entry.name);
    if (this.#options.hidden.contain(real)) return;
    this.#add(this.#dirs, relative);
    await this.#enter({
      path: `${parent.path}/${entry.name}`,
      relative,
      reals: [real, ...parent.reals],
    });
  }

  async #link(parent: Directory, name: string, relative: string): Promise<void> {
    const { followsSymlinks, ignoresSymlinks, isIgnored } = this.#options;
    if (ignoresSymlinks) return;
    const place = `${parent.path}/${name}`;
    const [destination, real] = await Promise.all([
      ifPresent(readlink(place)),
      ifPresent(realpath(place)),
    ]);
    if (destination === undefined) return;
    const target = real ?? path.resolve(parent.reals[0] ?? '/', destination);
    const isInside = isBelow(this.#realRoot, target) && !this.#options.hidden.contain(target);
    // A link that is not followed is a name and a text, which minions may want to set up alike.
    if (!isInside && followsSymlinks) return;
    const stats = real === undefined ? undefined : await ifPresent(stat(real));
    if (stats !== undefined && !stats.isFile() && !stats.isDirectory()) return;
    if (!isIgnored(relative)) this.#links.set(relative, destination);
    if (stats?.isDirectory() !== true) return this.#add(this.#files, relative);
    this.#add(this.#dirs, relative);
    if (followsSymlinks && !parent.reals.includes(target)) {
      await this.#enter({ path: place, relative, reals: [target, ...parent.reals] });
    }
  }

  #add(paths: Set<string>, relative: string): void {
    if (!this.#options.isIgnored(relative)) paths.add(relative);
  }

  #addEmpty(relative: string): void {
    if (relative !== '') this.#add(this.#emptyDirs, relative);
  }
}

/** A burst of changes, such as a checkout, is walked through once. */
const quietMs = 100;
/** Looking at every directory may take this share of the time at most. */
const checkShare = 0.02;

/** What the lists of an environment are made of. */
interface LiveListsOptions {
  /** Absolute paths. */
  readonly roots: readonly string[];
  readonly walk: Omit<WalkOptions, 'onDirectory'>;
  /** Milliseconds between looks at the directories, for changes that no watch tells of. */
  readonly checkMs: number;
  readonly log: Logger;
}

/**
 * The lists of one environment, kept up to date: walked at the start and after a change, however
 * many ask. Changes are told by watches; where the system has none to give, or none come (network
 * file systems), by a look at each directory's own time stamp now and then.
 */
class LiveLists {
  readonly #options: LiveListsOptions;
  readonly #watch: DirectoryWatch;
  #tree: Tree = { lists: noFiles, directories: new Map(), isCut: false };
  /** Something may have changed since the latest walk began. */
  #isStale = true;
  #walking: Promise<void> | undefined;
  #walkTimer: NodeJS.Timeout | undefined;
  #checkTimer: NodeJS.Timeout | undefined;
  #isClosed = false;
  #isRefusalTold = false;

  constructor(options: LiveListsOptions) {
    this.#options = options;
    this.#watch = new DirectoryWatch(
      () => this.#changed(),
      (error) => this.#refused(error),
    );
    this.#scheduleCheck(options.checkMs);
  }

  /** As it is now: what changed before the call is in it. */
  async current(): Promise<FileLists> {
    // A walk that is under way began before: it may have passed the place of a later change.
    if (this.#walking !== undefined) await this.#walking;
    if (this.#isStale) await this.#walk();
    return this.#tree.lists;
  }

  /** Walks anew, whatever has been told of changes. */
  async refresh(): Promise<void> {
    if (this.#isClosed) return;
    this.#isStale = true;
    await this.current();
  }

  /** Ends the watches, and waits for a walk that is under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#walkTimer);
    clearTimeout(this.#checkTimer);
    this.#watch.close();
    await this.#walking?.catch(() => {
      // Told to whoever asked for it.
    });
  }

  #walk(): Promise<void> {
    this.#walking ??= this.#walkOnce().finally(() => {
      this.#walking = undefined;
    });
    return this.#walking;
  }

  async #walkOnce(): Promise<void> {
    const { roots, walk, log } = this.#options;
    this.#isStale = false;
    try {
      this.#tree = await walkRoots(roots, {
        ...walk,
        onDirectory: (directory, identity) => this.#watch.add(directory, identity),
      });
    } catch (error) {
      this.#isStale = true;
      throw error;
    }
    this.#watch.keepOnly(this.#tree.directories);
    if (this.#tree.isCut) log.warn({ roots, files: maxEntries }, 'file lists were cut');
  }

  #changed(): void {
    this.#isStale = true;
    if (this.#isClosed) return;
    this.#walkTimer ??= setTimeout(() => {
      this.#walkTimer = undefined;
      this.current().catch((err: unknown) => {
        this.#options.log.error({ err }, 'file roots could not be walked');
      });
    }, quietMs).unref();
  }

  #refused(err: unknown): void {
    if (this.#isRefusalTold) return;
    this.#isRefusalTold = true;
    const { log, checkMs } = this.#options;
    log.warn({ err, checkMs }, 'not every directory is watched; changes show at the next look');
  }

  #scheduleCheck(ms: number): void {
    this.#checkTimer = setTimeout(() => {
      const startedAt = performance.now();
      this.#check()
        .catch((err: unknown) => this.#options.log.error({ err }, 'file roots were not looked at'))
        .finally(() => {
          const pause = (performance.now() - startedAt) / checkShare;
          if (!this.#isClosed) this.#scheduleCheck(Math.max(this.#options.checkMs, pause));
        });
    }, ms).unref();
  }

  async #check(): Promise<void> {
    for (const [directory, fingerprint] of this.#tree.directories) {
      if (this.#isClosed || this.#isStale) return;
      const state = await directoryState(directory);
      if ((state?.fingerprint ?? 'absent') !== fingerprint) return this.#changed();
    }
  }
}

/** What is served; a `MasterConfig` says all of it. */
export interface RootsOptions extends IgnoreRules {
  /**
   * `file_roots`: directories by environment, absolute, with globs or without. Those of `__env__`
   * serve every other environment; in them `__env__` stands for its name.
   */
  readonly fileRoots: Readonly<Record<string, readonly string[]>>;
  /** `fileserver_followsymlinks`. */
  readonly fileserverFollowsymlinks: boolean;
  /** `fileserver_ignoresymlinks`. */
  readonly fileserverIgnoresymlinks: boolean;
  /** `fileserver_list_cache_time`, seconds. */
  readonly fileserverListCacheTime: number;
}

/** What else roots may be opened with. */
export interface RootsDeps {
  /** Directories that nothing is served from, even below a root. Default: none. */
  readonly hidden?: readonly string[];
  /** Default: says nothing. */
  readonly logger?: Logger;
}

/** Environments that only `__env__` knows whose lists are kept. */
const maxOtherEnvs = 64;
const anyEnv = '__env__';

/** Opens file roots and begins to walk them. The caller closes them. */
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

/** A root that does not exist may come to exist; one with globs is what it means at the start. */
export async function expandRoot(pattern: string): Promise<string[]> {
  return /[*?[]/.test(pattern) ? await expandGlob(pattern) : [pattern.replace(/(?<=.)\/+$/, '')];
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
  /** Lists of `__env__`. */
  readonly #otherLists = new LRUCache<string, LiveLists>({
    max: maxOtherEnvs,
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

  /** Those who ask for the same file at the same moment share the answer. */
  async find(path: string, saltenv: string): Promise<FoundFile | undefined> {
    const mark = `${saltenv}\0${path}`;
    const underWay = this.#finding.get(mark);
    if (underWay !== undefined) return underWay;
    const finding = this.#find(path, saltenv).finally(() => this.#finding.delete(mark));
    this.#finding.set(mark, finding);
    return finding;
  }

  async lists(saltenv: string): Promise<FileLists> {
    const own = this.#lists.get(saltenv) ?? this.#otherLists.get(saltenv);
    if (own !== undefined) return own.current();
    const places = this.#placesOf(saltenv);
    if (places.length === 0) return noFiles;
    return this.#openOther(saltenv, places);
  }

  async refresh(saltenvs?: readonly string[]): Promise<readonly string[]> {
    const kept = [...this.#lists, ...this.#otherLists];
    const wanted = kept.filter(([env]) => saltenvs?.includes(env) ?? true);
    await Promise.all(wanted.map(([, lists]) => lists.refresh()));
    return wanted.map(([env]) => env);
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

  /** A name from a minion goes into a path only as one segment of it [THREATS C-40, C-50]. */
  // protection: environments-as-paths
  #placesOf(saltenv: string): readonly string[] {
    const own = this.#roots.get(saltenv);
    if (own !== undefined) return own;
    const isSegment = /^[^/\0]{1,255}$/.test(saltenv) && saltenv !== '.' && saltenv !== '..';
    const places = isSegment ? (this.#roots.get(anyEnv) ?? []) : [];
    return places.map((place) => place.replaceAll(anyEnv, () => saltenv));
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
    lists.current().catch((err: unknown) => this.#log.error({ err }, 'file roots were not walked'));
    return lists;
  }

  /** Any name may be asked for: one with nothing in it is not kept. */
  async #openOther(saltenv: string, places: readonly string[]): Promise<FileLists> {
    const opened = this.#open(places);
    this.#otherLists.set(saltenv, opened);
    const lists = await opened.current();
    if (lists.files.length > 0 || lists.dirs.length > 0) return lists;
    if (this.#otherLists.peek(saltenv) === opened) this.#otherLists.delete(saltenv);
    return noFiles;
  }

  #closeLists(lists: LiveLists): void {
    lists.close().catch((err: unknown) => this.#log.error({ err }, 'file roots were not closed'));
  }
}

/** Which of the lists a minion asks for. */
export type ListKind = keyof FileLists;

/** Replies that are kept for one state of the lists, and how large one with its prefix may be. */
const maxKept = 256;
const maxKeptBytes = 64 * 1024;

/**
 * Lists as they are sent, packed once for all who ask the same [bench/fileserver]. They go with
 * the lists that they were made from.
 */
export class PackedLists {
  readonly #kept = new WeakMap<FileLists, Map<string, Buffer>>();

  /** @param prefix what the paths begin with; slashes around it do not count, as in Salt */
  pack(lists: FileLists, kind: ListKind, prefix: string): Buffer {
    const start = prefix.replace(/^\/+/, '').replace(/(?<!\/)\/+$/, '');
    const mark = `${kind} ${start}`;
    const kept = this.#keptOf(lists);
    const known = kept.get(mark);
    if (known !== undefined) return known;
    const packed = packWire(select(lists, kind, start));
    if (start !== '' && packed.length + start.length > maxKeptBytes) return packed;
    if (kept.size >= maxKept) kept.clear();
    kept.set(mark, packed);
    return packed;
  }

  #keptOf(lists: FileLists): Map<string, Buffer> {
    const kept = this.#kept.get(lists) ?? new Map<string, Buffer>();
    this.#kept.set(lists, kept);
    return kept;
  }
}

function select(lists: FileLists, kind: ListKind, start: string): string[] | WireMap {
  const isWanted = (path: string): boolean => path.startsWith(start);
  if (kind !== 'links') return lists[kind].filter(isWanted);
  return Object.fromEntries([...lists.links].filter(([link]) => isWanted(link)));
}
