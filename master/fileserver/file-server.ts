/** What minions are served, from all backends together [salt/fileserver/__init__.py]. */
import type { WireValue } from '../../minion-protocol/index.ts';
import { type FileLists, type FileServerBackend, type FoundFile, noFiles } from './backend.ts';
import { requestedFile, saltenvName } from './requested-path.ts';

/** A file, and where it was found. */
export interface ServedFile {
  /** Relative, normalised. */
  readonly path: string;
  /** Name of the backend. */
  readonly back: string;
  readonly file: FoundFile;
}

interface Merged {
  readonly parts: readonly FileLists[];
  readonly lists: FileLists;
}

/** Asks backends in order: the first that has a file serves it; lists are those of all. */
export class FileServer {
  readonly #backends: readonly FileServerBackend[];
  readonly #merged = new Map<string, Merged>();

  constructor(backends: readonly FileServerBackend[]) {
    this.#backends = backends;
  }

  get backends(): readonly FileServerBackend[] {
    return this.#backends;
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
    if (requested === undefined) return undefined;
    for (const backend of this.#backends) {
      const file = await backend.find(requested.path, requested.saltenv);
      if (file !== undefined) return { path: requested.path, back: backend.name, file };
    }
    return undefined;
  }

  /** The lists of a load's `saltenv`; the same object as long as nothing has changed. */
  async lists(saltenv: WireValue | undefined): Promise<FileLists> {
    const env = saltenvName(saltenv);
    if (env === undefined) return noFiles;
    const all = await Promise.all(this.#backends.map((backend) => backend.lists(env)));
    const parts = all.filter((lists) => lists !== noFiles);
    const [only = noFiles, ...others] = parts;
    if (others.length === 0) return only;
    const known = this.#merged.get(env);
    if (known !== undefined && isSame(known.parts, parts)) return known.lists;
    const lists = merge(parts);
    this.#merged.set(env, { parts, lists });
    return lists;
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

  async close(): Promise<void> {
    await Promise.all(this.#backends.map((backend) => backend.close()));
  }
}

function isSame(left: readonly FileLists[], right: readonly FileLists[]): boolean {
  return left.length === right.length && left.every((lists, index) => lists === right[index]);
}

function merge(parts: readonly FileLists[]): FileLists {
  const files = new Set(parts.flatMap((part) => part.files));
  const union = (pick: (lists: FileLists) => readonly string[]): string[] =>
    [...new Set(parts.flatMap(pick))].sort();
  // Nothing is empty that another backend has something in.
  const inhabited = new Set([...files].map((file) => file.slice(0, file.lastIndexOf('/'))));
  return {
    files: [...files].sort(),
    dirs: union(({ dirs }) => dirs),
    emptyDirs: union(({ emptyDirs }) => emptyDirs).filter((dir) => !inhabited.has(dir)),
    // The backend that comes first says where a link points.
    links: new Map(parts.toReversed().flatMap(({ links }) => [...links])),
  };
}
