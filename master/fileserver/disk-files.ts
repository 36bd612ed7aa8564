import type { BigIntStats } from 'node:fs';
import { constants } from 'node:fs';
import { open, realpath, stat } from 'node:fs/promises';
import { Semaphore } from '../../runtime/index.ts';
import type { HashType } from '../config/options.ts';
import type { FileStat, FoundFile } from './backend.ts';
import { type HiddenDirectories, ifPresent, isBelow } from './confinement.ts';
import { HashCache } from './hash-cache.ts';

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
    // protection: hidden-directories
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

function describe(stats: BigIntStats): FileStat {
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
