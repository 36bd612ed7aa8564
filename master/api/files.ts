import type { HashType } from '#config';

/**
 * File backend (Salt: fileserver backend). The file server queries its backends in order. The first
 * backend that has the file serves it. All methods may be called concurrently.
 */
export interface FileServerBackend {
  /** Name of the backend, for example `roots`. Minions receive it in the field `back`. */
  readonly name: string;
  /** Returns the environments of the backend. */
  envs(): readonly string[];
  /**
   * Returns one file.
   * @param path - relative path with `/` as separator; no component is empty, `.` or `..`, and none
   * contains NUL
   * @param saltenv - environment as the minion sent it, not validated
   * @returns `undefined` if the path does not exist or is not a file
   */
  find(path: string, saltenv: string): Promise<FoundFile | undefined>;
  /**
   * Returns the paths in an environment, or {@link noFiles} if the environment is unknown. As long
   * as the files are unchanged, this method must return the same object, because callers use the
   * object as a cache key.
   * @param requester - minion that requests the lists. A backend that builds the lists first counts
   * this work with `requester.pay`. Default: the work is not counted
   */
  lists(saltenv: string, requester?: ListRequester): Promise<FileLists>;
  /**
   * Rebuilds the lists after changes that the backend did not notice. Backends whose lists are
   * always current omit this method.
   * @param saltenvs - environments to rebuild. Default: all environments with stored lists
   * @returns the environments whose lists were rebuilt
   */
  refresh?(saltenvs?: readonly string[]): Promise<readonly string[]>;
  /**
   * Fetches changes from the source of the files, for instance a remote repository.
   * @throws if the fetch fails; the backend continues to serve the previous files
   */
  update?(): Promise<void>;
  /** Releases the resources of the backend. */
  close(): Promise<void>;
}

/** A file, with the content that it had when it was found. */
export interface FoundFile {
  readonly stat: FileStat;
  /** Returns the digest of the file in hexadecimal. */
  hash(type: HashType): Promise<string>;
  /**
   * Returns up to `length` bytes from `offset`. Returns no bytes at the end of the file. The caller
   * may modify the result.
   */
  read(offset: number, length: number): Promise<Uint8Array>;
}

/** File attributes that minions receive [WIRE 9.8]. */
export interface FileStat {
  /** Type and permissions, as in `st_mode`. */
  readonly mode: number;
  readonly inode: number;
  readonly device: number;
  readonly links: number;
  readonly uid: number;
  readonly gid: number;
  /** Size in bytes. */
  readonly size: number;
  /** Access time, in seconds since 1970. */
  readonly accessedAt: number;
  /** Modification time of the content, in seconds since 1970. */
  readonly modifiedAt: number;
  /** Change time of the attributes, in seconds since 1970. */
  readonly changedAt: number;
}

/** Paths in an environment, relative to its roots. Each list is sorted by code point. */
export interface FileLists {
  readonly files: readonly string[];
  readonly dirs: readonly string[];
  /** Directories of `dirs` that are empty. */
  readonly emptyDirs: readonly string[];
  /** Target of each symbolic link, as written in the link. */
  readonly links: ReadonlyMap<string, string>;
}

/** Requester of file lists, whose rate limit includes the work of building them. */
export interface ListRequester {
  /** Owner whose turns of work the building of the lists uses. */
  readonly owner: string;
  /**
   * Counts the work for some paths towards the rate limit of the requester. Call it before the work
   * is done. Resolves when the rate limit permits the work.
   * @throws if too many requests of the requester are already waiting
   */
  pay(paths: number): Promise<void>;
}

/** Lists of an environment without files. */
export const noFiles: FileLists = { files: [], dirs: [], emptyDirs: [], links: new Map() };
