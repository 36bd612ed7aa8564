/**
 * The file server: finds requested paths in several back ends
 * [salt/fileserver/__init__.py].
 */

import { type FileLists, type FileServerBackend, type FoundFile, noFiles } from '#master';
import type { WireValue } from '#minion-protocol';
import { type RequestedFile, requestedFile, saltenvName } from './requested-file.ts';

/** A file, and where it was found. */
export interface ServedFile {
  /** Relative, normalised. */
  readonly path: string;
  /** Name of the backend. */
  readonly back: string;
  readonly file: FoundFile;
}

/** Asks backends in order: the first that has a file serves it; lists are those of all. */
export class FileServer {
  readonly #configured: readonly FileServerBackend[];
  readonly #added: readonly FileServerBackend[];
  #joined: readonly FileServerBackend[] = [];

  /**
   * @param configured - backends of the configuration
   * @param added - backends that are asked after those; the list may grow until the first request
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

  /** What some of its backends serve, in their order here; they stay its own. */
  narrowedTo(isWanted: (backend: FileServerBackend) => boolean): FileServer {
    return new FileServer(this.#backends.filter(isWanted));
  }

  /** The environments of all backends, sorted. */
  envs(): string[] {
    return [...new Set(this.#backends.flatMap((backend) => backend.envs()))].sort();
  }

  /** Finds a file by the `path` and `saltenv` of a load, whatever they are. */
  async find(
    path: WireValue | undefined,
    saltenv: WireValue | undefined,
  ): Promise<ServedFile | undefined> {
    const requested = requestedFile(path, saltenv);
    return requested && this.findAt(requested);
  }

  /** Finds a file by its place. */
  async findAt({ path, saltenv }: RequestedFile): Promise<ServedFile | undefined> {
    for (const backend of this.#backends) {
      const file = await backend.find(path, saltenv);
      if (file !== undefined) return { path, back: backend.name, file };
    }
    return undefined;
  }

  /** The lists of a load's `saltenv`; the same object as long as nothing has changed. */
  async lists(saltenv: WireValue | undefined): Promise<FileLists> {
    const env = saltenvName(saltenv);
    if (env === undefined) return noFiles;
    const all = await Promise.all(this.#backends.map((backend) => backend.lists(env)));
    const [first = noFiles, ...others] = all.filter((lists) => lists !== noFiles);
    return others.reduce(merged, first);
  }

  /**
   * Makes lists anew, for changes that nobody told of.
   * @param saltenvs default: all
   * @returns the environments whose lists were made anew, by backend
   */
  async refresh(saltenvs?: readonly string[]): Promise<ReadonlyMap<string, readonly string[]>> {
    const refreshed = new Map<string, readonly string[]>();
    for (const backend of this.#backends) {
      const envs = (await backend.refresh?.(saltenvs)) ?? [];
      if (envs.length > 0) refreshed.set(backend.name, [...envs].sort());
    }
    return refreshed;
  }

  /** Gets what has changed where files come from. @throws what the first of the backends throws */
  async update(): Promise<void> {
    for (const backend of this.#backends) await (backend.update?.() ?? backend.refresh?.());
  }

  async close(): Promise<void> {
    await Promise.all(this.#backends.map((backend) => backend.close()));
  }
}

/**
 * What was merged, by what it was made of and not by environment: a minion may name any
 * environment, and with a fallback each of them has the same lists.
 */
const known = new WeakMap<FileLists, WeakMap<FileLists, FileLists>>();

/** The lists of two backends; the same object as long as these are the same. */
function merged(first: FileLists, second: FileLists): FileLists {
  const withFirst = known.get(first) ?? new WeakMap<FileLists, FileLists>();
  known.set(first, withFirst);
  const lists = withFirst.get(second) ?? merge(first, second);
  withFirst.set(second, lists);
  return lists;
}

function merge(first: FileLists, second: FileLists): FileLists {
  const files = new Set([...first.files, ...second.files]);
  const union = (pick: (lists: FileLists) => readonly string[]): string[] =>
    [...new Set([...pick(first), ...pick(second)])].sort();
  // Nothing is empty that another backend has something in.
  const inhabited = new Set([...files].map((file) => file.slice(0, file.lastIndexOf('/'))));
  return {
    files: [...files].sort(),
    dirs: union(({ dirs }) => dirs),
    emptyDirs: union(({ emptyDirs }) => emptyDirs).filter((dir) => !inhabited.has(dir)),
    // The backend that comes first says where a link points.
    links: new Map([...second.links, ...first.links]),
  };
}
