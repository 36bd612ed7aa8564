/**
 * File backends (Salt: fileserver backends). The file server asks them in order; the first that has
 * a file serves it.
 */

import type { HashType } from '#config';

/** A place that files come from. Everything may be called at the same time. */
export interface FileServerBackend {
  /** Told to minions as `back`: `roots`, or a word of the service. */
  readonly name: string;
  /** The environments that it has. */
  envs(): readonly string[];
  /**
   * One file.
   * @param path relative, `/` between names, none of which is empty, `.` or `..`; no NUL
   * @param saltenv as the minion says: any text
   * @returns `undefined` when there is none, or what is there is no file
   */
  find(path: string, saltenv: string): Promise<FoundFile | undefined>;
  /**
   * Everything in an environment; of an unknown one, {@link noFiles}. As long as nothing has
   * changed it is the same object: what is made from it is kept by that.
   */
  lists(saltenv: string): Promise<FileLists>;
  /**
   * Makes its lists anew, for changes that nobody told of. One whose lists are always those of
   * now needs none.
   * @param saltenvs default: all environments whose lists it keeps
   * @returns those whose lists it made anew
   */
  refresh?(saltenvs?: readonly string[]): Promise<readonly string[]>;
  /**
   * Gets what has changed where its files come from, for instance of a remote repository.
   * @throws when that fails; what it served before it goes on serving
   */
  update?(): Promise<void>;
  /** Lets go of what it holds. */
  close(): Promise<void>;
}

/** A file as it was when it was looked for. */
export interface FoundFile {
  readonly stat: FileStat;
  /** Its digest, hexadecimal. */
  hash(type: HashType): Promise<string>;
  /** Up to `length` bytes from `offset`; none from its end on. The caller may keep them. */
  read(offset: number, length: number): Promise<Uint8Array>;
}

/** What minions are told of a file [WIRE 9.8]. */
export interface FileStat {
  /** Type and permissions, as in `st_mode`. */
  readonly mode: number;
  readonly inode: number;
  readonly device: number;
  readonly links: number;
  readonly uid: number;
  readonly gid: number;
  /** Bytes. */
  readonly size: number;
  /** Seconds since 1970, as the two below. */
  readonly accessedAt: number;
  readonly modifiedAt: number;
  readonly changedAt: number;
}

/** The paths of an environment, relative to its roots, each list sorted by code point. */
export interface FileLists {
  readonly files: readonly string[];
  readonly dirs: readonly string[];
  /** Those of `dirs` with nothing in them. */
  readonly emptyDirs: readonly string[];
  /** Where each symbolic link points, as written. */
  readonly links: ReadonlyMap<string, string>;
}

/** An environment with nothing in it. */
export const noFiles: FileLists = { files: [], dirs: [], emptyDirs: [], links: new Map() };
