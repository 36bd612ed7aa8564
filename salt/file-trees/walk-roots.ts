/** Lists the files of an environment [salt/fileserver/roots.py _file_lists]. */

import type { Dirent } from 'node:fs';
import { readdir, readlink, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import type { FileLists } from '#master';
import { compileSearchPattern } from '#minion-protocol';
import { sortInSlices, unlimitedSteps, WorkBudget } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import { type HiddenDirectories, ifPresent, isBelow } from './disk-files.ts';

/** Patterns of paths that are not served. */
export interface IgnoreRules {
  /** `file_ignore_glob`: globs matched against the whole path. */
  readonly fileIgnoreGlob: readonly string[];
  /** `file_ignore_regex`: patterns matched anywhere in the path. */
  readonly fileIgnoreRegex: readonly string[];
}

/**
 * Compiles the rules to a predicate. As in Salt, the argument is the path below the root when files
 * are listed, and the path on the disk when a file is requested [salt.fileserver.is_file_ignored].
 */
export function compileIgnore(rules: IgnoreRules): (path: string) => boolean {
  const tests = [
    ...rules.fileIgnoreRegex.map(compileSearchPattern),
    ...rules.fileIgnoreGlob.map((glob) => compileGlob(glob)),
  ];
  return (path) => tests.some((test) => test(path));
}

/** Options for listing the files of roots. */
export interface WalkOptions {
  /** `fileserver_followsymlinks`: whether to enter directories through links. */
  readonly followsSymlinks: boolean;
  /** `fileserver_ignoresymlinks`: whether to omit links from the lists. */
  readonly ignoresSymlinks: boolean;
  /** Returns whether a path, relative to the root, is omitted. */
  readonly isIgnored: (path: string) => boolean;
  readonly hidden: HiddenDirectories;
  /**
   * Called with each directory before it is read. `identity` differs for a directory that was
   * deleted and created again at the same path.
   */
  readonly onDirectory: (directory: string, identity: string) => void;
}

/**
 * Result of walking the roots of an environment: the file lists, and the directories that were
 * read.
 */
export interface Tree {
  readonly lists: FileLists;
  /**
   * Fingerprints of the directories that were read, by absolute path. A fingerprint changes when a
   * name is added to or removed from the directory.
   */
  readonly directories: ReadonlyMap<string, string>;
  /** Whether the walk stopped at {@link maxEntries}. */
  readonly isCut: boolean;
}

/** Maximum number of files and directories of one environment. */
export const maxEntries = 250_000;

/** Estimated work for adding one file to the lists, in steps of a `WorkBudget`. */
const stepsOfFile = 100;

/**
 * Walks the roots in order. A root that does not exist is treated as empty.
 * @param roots - absolute paths
 */
export async function walkRoots(roots: readonly string[], options: WalkOptions): Promise<Tree> {
  const walk = new Walk(options);
  for (const root of roots) await walk.root(root);
  return walk.tree();
}

/**
 * Returns the identity of a directory and the fingerprint of its content, or `undefined` if it does
 * not exist.
 */
export async function directoryState(
  directory: string,
): Promise<{ readonly identity: string; readonly fingerprint: string } | undefined> {
  const stats = await ifPresent(stat(directory, { bigint: true }));
  if (!stats?.isDirectory()) return undefined;
  const identity = `${stats.dev} ${stats.ino} ${stats.birthtimeNs}`;
  return { identity, fingerprint: `${identity} ${stats.mtimeNs}` };
}

interface Directory {
  /** Absolute path that begins with the path of the root. It may contain links. */
  readonly path: string;
  /** Path below the root; empty for the root itself. */
  readonly relative: string;
  /** Real paths of this directory and of its parents. */
  readonly reals: readonly string[];
}

class Walk {
  readonly #options: WalkOptions;
  readonly #files = new Set<string>();
  readonly #dirs = new Set<string>();
  readonly #emptyDirs = new Set<string>();
  readonly #links = new Map<string, string>();
  readonly #directories = new Map<string, string>();
  readonly #budget = new WorkBudget(unlimitedSteps);
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

  /** Sorts the lists in slices, so that other work can run in between. */
  async tree(): Promise<Tree> {
    const sorted = (paths: Iterable<string>): Promise<string[]> =>
      sortInSlices([...paths], (path) => path, this.#budget);
    const links = await sortInSlices([...this.#links], ([path]) => path, this.#budget);
    return {
      lists: {
        files: await sorted(this.#files),
        dirs: await sorted(this.#dirs),
        emptyDirs: await sorted(this.#emptyDirs),
        links: new Map(links),
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
    // Add the watcher and read the time stamp before the entries, so that a change during the read
    // is detected.
    this.#options.onDirectory(directory.path, state.identity);
    this.#directories.set(directory.path, state.fingerprint);
    const entries = await ifPresent(readdir(directory.path, { withFileTypes: true }));
    if (entries === undefined) return;
    if (entries.length === 0) this.#addEmpty(directory.relative);
    const others: Dirent[] = [];
    for (const entry of entries) {
      this.#budget.addToSlice(stepsOfFile);
      if (this.#budget.isSliceOver) await this.#budget.giveWay();
      if (entry.isFile()) this.#addFile(directory, entry.name);
      else others.push(entry);
    }
    await Promise.all(others.map((entry) => this.#entry(directory, entry)));
  }

  #addFile({ relative }: Directory, name: string): void {
    if (!this.#isFull() && isSendable(name)) this.#add(this.#files, below(relative, name));
  }

  async #entry(parent: Directory, entry: Dirent): Promise<void> {
    if (this.#isFull() || !isSendable(entry.name)) return;
    const relative = below(parent.relative, entry.name);
    if (entry.isSymbolicLink()) return this.#link(parent, entry.name, relative);
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
    // If the master does not follow a link, it lists the link with its target, so that minions can
    // create the same link.
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

/**
 * Whether a name can be sent to minions. Node.js replaces bytes that are not UTF-8 with U+FFFD. A
 * name with these bytes cannot be sent [WIRE 2.1].
 */
function isSendable(name: string): boolean {
  return !name.includes('\ufffd');
}

function below(directory: string, name: string): string {
  return directory === '' ? name : `${directory}/${name}`;
}
