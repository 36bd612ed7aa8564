import { type BigIntStats, constants } from 'node:fs';
import { open, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import type { HashType } from '#config';
import type { FoundFile } from '#master';
import { codeOf, createBoundedMap, hashFile, Semaphore } from '#runtime';
import { saltLimits } from '../limits.ts';

/**
 * Minimum age of a file's last change, in milliseconds, before its digest is cached. A file that
 * changed more recently may change again without a new time stamp.
 */
const settledAfterMs = 2000;

/** Metadata that identify one version of a file's content without reading it. */
export interface FileVersion {
  readonly inode: bigint;
  readonly size: bigint;
  /** Modification time in nanoseconds since 1970. */
  readonly modifiedAt: bigint;
  /** Inode change time in nanoseconds since 1970. */
  readonly changedAt: bigint;
}

/**
 * Cache of file digests. It computes the digest of each version of a file once, also for concurrent
 * callers. It reads files in slices, so that the master answers other requests in the meantime.
 */
export class HashCache {
  readonly #now: () => number;
  readonly #kept = createBoundedMap<string, string>(saltLimits.fileDigests);
  readonly #underWay = new Map<string, Promise<string>>();

  /** @param now - returns milliseconds since 1970, from the clock that stamps the files */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /**
   * Returns the digest of a version of a file.
   * @param file - absolute path
   * @param version - version of the content to digest
   */
  async hash(file: string, version: FileVersion, type: HashType): Promise<string> {
    const { inode, size, modifiedAt, changedAt } = version;
    const mark = `${type} ${inode} ${size} ${modifiedAt} ${changedAt} ${file}`;
    const known = this.#kept.get(mark) ?? this.#underWay.get(mark);
    if (known !== undefined) return known;
    const isSettled = changedAt / 1_000_000n < BigInt(this.#now() - settledAfterMs);
    const hashing = hashFile(file, type)
      .then((bytes) => {
        const digest = bytes.toString('hex');
        if (isSettled) this.#kept.set(mark, digest);
        return digest;
      })
      .finally(() => this.#underWay.delete(mark));
    this.#underWay.set(mark, hashing);
    return hashing;
  }
}

/** Reads files on the disk by root and path. */
export class DiskFiles {
  readonly #hidden: HiddenDirectories;
  readonly #hashes: HashCache = new HashCache();
  readonly #reads = new Semaphore(saltLimits.fileReads);

  constructor(hidden: HiddenDirectories) {
    this.#hidden = hidden;
  }

  /**
   * Returns the file at a path below a root. The real path, with all links resolved, must be below
   * the root [THREATS C-40].
   */
  async find(root: string, path: string): Promise<FoundFile | undefined> {
    const [realRoot, file] = await Promise.all([
      ifPresent(realpath(root)),
      ifPresent(realpath(`${root}/${path}`)),
    ]);
    if (realRoot === undefined || file === undefined) return undefined;
    if (!isBelow(realRoot, file) || this.#hidden.contain(file)) return undefined;
    const stats = await ifPresent(stat(file, { bigint: true }));
    if (!stats?.isFile()) return undefined;
    return this.#found(file, stats);
  }

  #found(file: string, stats: BigIntStats): FoundFile {
    const version = {
      inode: stats.ino,
      size: stats.size,
      modifiedAt: stats.mtimeNs,
      changedAt: stats.ctimeNs,
    };
    const fileStat = describe(stats);
    return {
      stat: fileStat,
      hash: (type: HashType) => this.#hashes.hash(file, version, type),
      read: (offset, length) => {
        const wanted = Math.min(length, fileStat.size - offset);
        return this.#reads.run(() => readPart(file, offset, wanted));
      },
    };
  }
}

async function readPart(file: string, offset: number, length: number): Promise<Uint8Array> {
  if (length <= 0) return new Uint8Array();
  // O_NOFOLLOW is safe here: `file` is a real path, so all links are already resolved.
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    const { buffer, bytesRead } = await handle.read(
      Buffer.allocUnsafeSlow(length),
      0,
      length,
      offset,
    );
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

function describe(stats: BigIntStats): FoundFile['stat'] {
  return {
    mode: Number(stats.mode),
    inode: Number(stats.ino),
    device: Number(stats.dev),
    links: Number(stats.nlink),
    uid: Number(stats.uid),
    gid: Number(stats.gid),
    size: Number(stats.size),
    accessedAt: seconds(stats.atimeNs),
    modifiedAt: seconds(stats.mtimeNs),
    changedAt: seconds(stats.ctimeNs),
  };
}

function seconds(nanoseconds: bigint): number {
  return Number(nanoseconds / 1_000_000_000n);
}

/**
 * Error codes of file system calls that are treated as "no such file". They include the errors for
 * paths of the wrong file type.
 */
const absent: ReadonlySet<string> = new Set([
  'EACCES',
  'EEXIST',
  'EINVAL',
  'EISDIR',
  'ELOOP',
  'ENAMETOOLONG',
  'ENOENT',
  'ENOTDIR',
]);

/** Whether a file system error means that no file can be read at a path. */
function isAbsence(error: unknown): boolean {
  return absent.has(codeOf(error) ?? '');
}

/**
 * Awaits a file system call and returns `undefined` if the file does not exist.
 * @throws every other failure
 */
export async function ifPresent<T>(look: Promise<T>): Promise<T | undefined> {
  try {
    return await look;
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

/** Whether `file` is `directory` or below it. Both must be absolute paths without links. */
export function isBelow(directory: string, file: string): boolean {
  return file === directory || file.startsWith(directory === '/' ? '/' : `${directory}/`);
}

/**
 * Matches the paths of unpacked site bundles, relative to the state directory. Files at these paths
 * are served. All other files in the state directory are hidden.
 */
const bundleTree = /^\/site\/bundles\/\d+\/tree(?:\/|$)/;

/**
 * Directories whose files are never served, even if a file root contains them [THREATS G-08, M-10].
 */
export class HiddenDirectories {
  readonly #given: readonly string[];
  #directories: readonly string[];

  private constructor(given: readonly string[], directories: readonly string[]) {
    this.#given = given;
    this.#directories = directories;
  }

  /**
   * Creates the set of hidden directories.
   * @param directories - absolute paths of the directories; the path of a directory that does not
   * exist yet is hidden too
   */
  static async open(directories: readonly string[]): Promise<HiddenDirectories> {
    return new HiddenDirectories(directories, await Promise.all(directories.map(realPlace)));
  }

  /**
   * Resolves the symbolic links in the paths of the hidden directories again, because a link may
   * have changed.
   */
  async refresh(): Promise<void> {
    this.#directories = await Promise.all(this.#given.map(realPlace));
  }

  /**
   * Whether a file is in a hidden directory.
   * @param file - absolute path without links
   */
  contain(file: string): boolean {
    return this.#directories.some(
      (directory) => isBelow(directory, file) && !bundleTree.test(file.slice(directory.length)),
    );
  }
}

/**
 * Returns a path with the links in its existing part resolved. Names of files and directories that
 * do not exist stay unchanged.
 */
export async function realPlace(place: string): Promise<string> {
  const real = await ifPresent(realpath(place));
  if (real !== undefined) return real;
  const parent = path.dirname(place);
  return parent === place ? place : path.join(await realPlace(parent), path.basename(place));
}
