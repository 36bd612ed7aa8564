/**
 * The file server: requested paths, all back ends together, and how it is opened
 * [salt/fileserver/__init__.py].
 */

import type { Logger } from 'pino';
import type { FixedConfig, MasterConfig } from '#config';
import {
  type FileLists,
  type FileServerBackend,
  type FoundFile,
  noFiles,
  type RequestedFile,
  requestedFile,
  saltenvName,
} from '#master';
import type { WireValue } from '#minion-protocol';
import { isBelow } from './disk-files.ts';
import { expandRoot, openRoots } from './roots.ts';

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

// Opening.

/** Where a master's files come from. */
export interface FileServerOptions {
  /**
   * Asked in this order; they belong to the master from its start on, which closes them. A function
   * is called at the start: with {@link openFileRoots} among them, `fileRoots` are served as well.
   */
  readonly backends: readonly (
    | FileServerBackend
    | ((config: FixedConfig, logger: Logger) => Promise<FileServerBackend>)
  )[];
}

/**
 * The `file_roots` of a configuration. Never served, whatever root they lie in: keys, the store,
 * what minions pushed, copies of repositories, and the files of pillar.
 */
export async function openFileRoots(
  config: FixedConfig,
  logger?: Logger,
): Promise<FileServerBackend> {
  const hidden = [...hiddenDirectories(config), ...(await pillarDirectories(config))];
  return openRoots(config, { hidden, ...(logger === undefined ? {} : { logger }) });
}

/** Keys, the store, what minions pushed, and copies of repositories. */
export function hiddenDirectories({
  pkiDir,
  stateDir,
  cachedir,
}: Pick<MasterConfig, 'pkiDir' | 'stateDir' | 'cachedir'>): readonly string[] {
  return [pkiDir, stateDir, `${cachedir}/minions`, `${cachedir}/git`];
}

/**
 * The directories of `pillar_roots` and `ext_pillar` that are none of `file_roots` and have none
 * below them: who keeps pillar among the states does not hand it to every minion.
 */
async function pillarDirectories({
  pillarRoots,
  extPillar,
  fileRoots,
}: Pick<MasterConfig, 'pillarRoots' | 'extPillar' | 'fileRoots'>): Promise<string[]> {
  const [roots, files] = await Promise.all([placesOf(pillarRoots), placesOf(fileRoots)]);
  const ext = extPillar.flatMap((entry) => ('directory' in entry ? [entry.directory] : []));
  return [...roots, ...ext].filter((place) => !files.some((file) => isBelow(place, file)));
}

async function placesOf(roots: Readonly<Record<string, readonly string[]>>): Promise<string[]> {
  const places = await Promise.all(Object.values(roots).flat().map(expandRoot));
  return places.flat().map((place) => place.split('/__env__')[0] ?? place);
}

// Several backends as one.

/** What several backends serve, as one; they stay the caller's. */
export function asBackend(name: string, backends: readonly FileServerBackend[]): FileServerBackend {
  const server = new FileServer(backends);
  return {
    name,
    envs: () => server.envs(),
    find: async (path, saltenv) => (await server.findAt({ path, saltenv }))?.file,
    lists: (saltenv) => server.lists(saltenv),
    close: async () => {},
  };
}

/** The file server as a source of templates, whose paths may have a query. */
export function servedFiles(fileServer: FileServer): FileServerBackend {
  return {
    ...asBackend('served', fileServer.backends),
    find: async (place, saltenv) => (await fileServer.find(place, saltenv))?.file,
  };
}
