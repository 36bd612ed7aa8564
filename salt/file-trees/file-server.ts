/** The file server, which searches several backends [salt/fileserver/__init__.py]. */

import {
  type FileLists,
  type FileServerBackend,
  type FoundFile,
  type ListRequester,
  noFiles,
} from '#master';
import type { WireValue } from '#minion-protocol';
import { sortInSlices, unlimitedSteps, WorkBudget } from '#runtime';
import { type RequestedFile, requestedFile, saltenvName } from './requested-file.ts';

/** Estimated work for merging one path, in steps. */
const mergeSteps = 20;

/** A file and the backend that serves it. */
export interface ServedFile {
  /** Normalised path of the file in its environment. */
  readonly path: string;
  /** Name of the backend. */
  readonly back: string;
  readonly file: FoundFile;
}

/**
 * Combines backends in order. The first backend that has a file serves it. Lists contain the files
 * of all backends.
 */
export class FileServer {
  readonly #configured: readonly FileServerBackend[];
  readonly #added: readonly FileServerBackend[];
  #joined: readonly FileServerBackend[] = [];

  /**
   * @param configured - backends of the configuration
   * @param added - backends of extensions, searched after `configured`; more may be added to the
   * array until the first request
   */
  constructor(configured: readonly FileServerBackend[], added: readonly FileServerBackend[] = []) {
    this.#configured = configured;
    this.#added = added;
  }

  get backends(): readonly FileServerBackend[] {
    return this.#backends;
  }

  get #backends(): readonly FileServerBackend[] {
    const count = this.#configured.length + this.#added.length;
    if (this.#joined.length !== count) this.#joined = [...this.#configured, ...this.#added];
    return this.#joined;
  }

  /**
   * Returns a file server that searches only the backends for which `isWanted` returns true, in the
   * same order. Closing the returned file server does not close the backends.
   */
  narrowedTo(isWanted: (backend: FileServerBackend) => boolean): FileServer {
    return new FileServer(this.#backends.filter(isWanted));
  }

  /** Returns the environments of all backends, sorted. */
  envs(): string[] {
    return [...new Set(this.#backends.flatMap((backend) => backend.envs()))].sort();
  }

  /** Finds a file by the `path` and `saltenv` of a minion's request. Both values are unchecked. */
  async find(
    path: WireValue | undefined,
    saltenv: WireValue | undefined,
  ): Promise<ServedFile | undefined> {
    const requested = requestedFile(path, saltenv);
    return requested && this.findAt(requested);
  }

  /** Finds a file by its normalised path and environment. */
  async findAt({ path, saltenv }: RequestedFile): Promise<ServedFile | undefined> {
    for (const backend of this.#backends) {
      const file = await backend.find(path, saltenv);
      if (file !== undefined) return { path, back: backend.name, file };
    }
    return undefined;
  }

  /**
   * Returns the file lists of the environment that a request names in `saltenv`. The result is the
   * same object until a list changes.
   * @param requester - minion towards whose rate limit the building of the lists counts. Default: it
   * does not count
   */
  async lists(saltenv: WireValue | undefined, requester?: ListRequester): Promise<FileLists> {
    const env = saltenvName(saltenv);
    if (env === undefined) return noFiles;
    const all = await Promise.all(this.#backends.map((backend) => backend.lists(env, requester)));
    const [first = noFiles, ...others] = all.filter((lists) => lists !== noFiles);
    let lists = first;
    for (const other of others) lists = await merged(lists, other, requester);
    return lists;
  }

  /**
   * Rebuilds the lists, so that they include changes that no directory watch has reported.
   * @param saltenvs - environments to rebuild; default: all
   * @returns the environments whose lists were rebuilt, by backend
   */
  async refresh(saltenvs?: readonly string[]): Promise<ReadonlyMap<string, readonly string[]>> {
    const refreshed = new Map<string, readonly string[]>();
    for (const backend of this.#backends) {
      const envs = (await backend.refresh?.(saltenvs)) ?? [];
      if (envs.length > 0) refreshed.set(backend.name, [...envs].sort());
    }
    return refreshed;
  }

  /**
   * Fetches changes from remote sources, and rebuilds the lists of local backends.
   * @throws the error of the first backend that fails
   */
  async update(): Promise<void> {
    for (const backend of this.#backends) await (backend.update?.() ?? backend.refresh?.());
  }

  async close(): Promise<void> {
    await Promise.all(this.#backends.map((backend) => backend.close()));
  }
}

/**
 * Cache of merged file lists. Its keys are the two lists that were merged, and not the name of the
 * environment, because minions may request any name. The garbage collector removes an entry when
 * its lists are no longer in use.
 */
const known = new WeakMap<FileLists, WeakMap<FileLists, Promise<FileLists>>>();

/** Merges the lists of two backends. The result is the same object for the same arguments. */
async function merged(
  first: FileLists,
  second: FileLists,
  requester: ListRequester | undefined,
): Promise<FileLists> {
  const withFirst = known.get(first) ?? new WeakMap<FileLists, Promise<FileLists>>();
  known.set(first, withFirst);
  if (!withFirst.has(second)) await requester?.pay(countOf(first) + countOf(second));
  // Another request may have merged the lists while this one waited.
  const lists = withFirst.get(second) ?? merge(first, second, requester?.owner);
  withFirst.set(second, lists);
  return lists;
}

function countOf({ files, dirs, emptyDirs, links }: FileLists): number {
  return files.length + dirs.length + emptyDirs.length + links.size;
}

/** Merges lists in slices. Other work can run after each slice. */
async function merge(
  first: FileLists,
  second: FileLists,
  owner: string | undefined,
): Promise<FileLists> {
  const budget = new WorkBudget(unlimitedSteps, owner);
  const union = async (pick: (lists: FileLists) => readonly string[]): Promise<string[]> => {
    const names = new Set<string>();
    for (const list of [pick(first), pick(second)]) {
      await eachInSlices(list, budget, (name) => names.add(name));
    }
    return sortInSlices([...names], (name) => name, budget);
  };
  const files = await union((lists) => lists.files);
  // The merged list omits a directory from `empty_dirs` if the other backend has files in it.
  const inhabited = new Set<string>();
  await eachInSlices(files, budget, (file) => inhabited.add(file.slice(0, file.lastIndexOf('/'))));
  const links = new Map<string, string>();
  // The first backend takes precedence for a link that both contain.
  for (const lists of [second, first]) {
    await eachInSlices(lists.links, budget, ([link, target]) => links.set(link, target));
  }
  return {
    files,
    dirs: await union(({ dirs }) => dirs),
    emptyDirs: (await union(({ emptyDirs }) => emptyDirs)).filter((dir) => !inhabited.has(dir)),
    links,
  };
}

/** Calls a function for each item. Other work can run after each slice of the items. */
async function eachInSlices<Item>(
  items: Iterable<Item>,
  budget: WorkBudget,
  visit: (item: Item) => void,
): Promise<void> {
  for (const item of items) {
    visit(item);
    budget.addToSlice(mergeSteps);
    if (budget.isSliceOver) await budget.giveWay();
  }
}
