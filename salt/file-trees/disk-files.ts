import { type BigIntStats, constants } from 'node:fs';
import { open, realpath, stat } from 'node:fs/promises';
import path from 'node:path';
import type { HashType } from '#config';
import type { FoundFile } from '#master';
import { codeOf, createBoundedMap, hashFile, Semaphore } from '#runtime';

/** Digests that are kept; each is some 200 bytes. */
const maxKept = 50_000;
/** A file changed so shortly before its digest was made may change again within one tick of its clock. */
const settledAfterMs = 2000;

/** Tells one content of a file from another without reading it. */
export interface FileVersion {
  readonly inode: bigint;
  readonly size: bigint;
  /** Nanoseconds since 1970. */
  readonly modifiedAt: bigint;
  /** Nanoseconds since 1970. */
  readonly changedAt: bigint;
}

/**
 * Digests of files on the disk: made once a version of the file however many ask, read in slices
 * so that other requests are answered meanwhile.
 */
export class HashCache {
  readonly #now: () => number;
  readonly #kept = createBoundedMap<string, string>(maxKept);
  readonly #underWay = new Map<string, Promise<string>>();

  /** @param now milliseconds since 1970, by the clock that files are stamped with */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** @param file absolute path @param version of the content that is meant */
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

/** Chunks being read at a time: their memory is what a thousand minions asking at once would take. */
const readsAtOnce = 16;

/** Files on the disk, by root and path. */
export class DiskFiles {
  readonly #hidden: HiddenDirectories;
  readonly #hashes: HashCache = new HashCache();
  readonly #reads = new Semaphore(readsAtOnce);

  constructor(hidden: HiddenDirectories) {
    this.#hidden = hidden;
  }

  /**
   * The file at a path below a root. It must be there after every link was followed
   * [THREATS C-40].
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
  // No link: the one that was there was followed already.
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

/** What stands for "no such file", whatever a path looked like; also what is there of another kind. */
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

/** Whether a failure of the file system means that there is nothing to be had at a path. */
function isAbsence(error: unknown): boolean {
  return absent.has(codeOf(error) ?? '');
}

/** What `look` finds; `undefined` where there is nothing. Other failures stay failures. */
export async function ifPresent<T>(look: Promise<T>): Promise<T | undefined> {
  try {
    return await look;
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

/** Whether `file` is `directory` or below it; both absolute and without links. */
export function isBelow(directory: string, file: string): boolean {
  return file === directory || file.startsWith(directory === '/' ? '/' : `${directory}/`);
}

/** Directories that no file is served from, whichever root they lie below [THREATS G-08, M-10]. */
export class HiddenDirectories {
  readonly #directories: readonly string[];

  private constructor(directories: readonly string[]) {
    this.#directories = directories;
  }

  /** @param directories absolute; those that do not exist yet count by their name */
  static async open(directories: readonly string[]): Promise<HiddenDirectories> {
    return new HiddenDirectories(await Promise.all(directories.map(realPlace)));
  }

  /** @param file absolute, without links */
  contain(file: string): boolean {
    return this.#directories.some((directory) => isBelow(directory, file));
  }
}

/** Returns a place without links, as far as it exists. */
export async function realPlace(place: string): Promise<string> {
  const real = await ifPresent(realpath(place));
  if (real !== undefined) return real;
  const parent = path.dirname(place);
  return parent === place ? place : path.join(await realPlace(parent), path.basename(place));
}
