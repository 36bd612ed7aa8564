/**
 * Stores files that minions push with `cp.push` [WIRE 9.9; salt/master.py _file_recv, THREATS C-44,
 * M-14].
 */

import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readdir, realpath, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { relativePath } from '#master';
import { isValidMinionId, type WireMap, wireBytes } from '#minion-protocol';
import { makeDirectory } from '#runtime';
import { ifPresent, isBelow } from '../file-trees/disk-files.ts';

/** Directory and limits of pushed files. */
export interface PushedFilesOptions {
  /** `cachedir`: files are stored in `minions/<id>/files` below it. */
  readonly cachedir: string;
  /** `file_recv_max_size`: maximum bytes of one file. */
  readonly maxFileBytes: number;
  /** `pushed_bytes`: maximum bytes of all files of one minion. 0: no limit. */
  readonly maxMinionBytes: number;
  /** `pushed_files`: maximum number of files and folders of one minion. 0: no limit. */
  readonly maxMinionFiles: number;
}

/** Number of a minion's files and folders, and their total size. */
interface Use {
  readonly files: number;
  readonly bytes: number;
}

/**
 * Minimum size at which a file is counted towards the limit of its minion, in bytes. Each folder is
 * counted at exactly this size.
 */
const leastFileBytes = 4096;

/** Part of a file to write. */
interface Part {
  /** Normalised path below the minion's folder. */
  readonly file: string;
  readonly offset: number;
  readonly data: Uint8Array;
}

/** Stores pushed files in one folder per minion. */
export class PushedFiles {
  readonly #options: PushedFilesOptions;
  /** Last write of each minion. The next write waits for it, so that parts are written in order. */
  readonly #writing = new Map<string, Promise<boolean>>();
  readonly #used = new Map<string, Use>();

  constructor(options: PushedFilesOptions) {
    this.#options = options;
  }

  /**
   * Writes one part of a file.
   * @param minionId - verified id
   * @returns whether the part was written; false if the path is outside the minion's folder, the
   * part would leave a gap, or a limit is exceeded
   */
  async take(minionId: string, load: WireMap): Promise<boolean> {
    const part = parsePart(load);
    if (part === undefined || !isValidMinionId(minionId)) return false;
    if (part.offset + part.data.length > this.#options.maxFileBytes) return false;
    const before = this.#writing.get(minionId) ?? Promise.resolve(true);
    const writing = before
      // The request that sent the previous part gets its error.
      .catch(() => false)
      .then(() => this.#write(minionId, part));
    this.#writing.set(minionId, writing);
    try {
      return await writing;
    } finally {
      if (this.#writing.get(minionId) === writing) this.#writing.delete(minionId);
    }
  }

  /** Removes all files that a minion pushed. */
  async forget(minionId: string): Promise<void> {
    if (!isValidMinionId(minionId)) return;
    // Wait for a running write, whether it succeeds or fails.
    await this.#writing.get(minionId)?.catch(() => false);
    await rm(this.#folderOf(minionId), { recursive: true, force: true });
    this.#used.delete(minionId);
  }

  #folderOf(minionId: string): string {
    return path.join(this.#options.cachedir, 'minions', minionId, 'files');
  }

  async #write(minionId: string, { file, offset, data }: Part): Promise<boolean> {
    const base = this.#folderOf(minionId);
    const place = path.join(base, file);
    const oldSize = (await ifPresent(stat(place)))?.size;
    // A part that is sent twice is written again at its offset. A part that begins after the end
    // would leave a gap.
    if (offset > (oldSize ?? 0)) return false;
    const newSize = offset === 0 ? data.length : Math.max(oldSize ?? 0, offset + data.length);
    const isNew = oldSize === undefined;
    const folders = isNew ? await missingFolders(base, file) : 0;
    const added = isNew ? folders + 1 : 0;
    const growth = folders * leastFileBytes + roomOf(newSize) - (isNew ? 0 : roomOf(oldSize));
    const before = await this.#usedBy(minionId, base);
    const used = { files: before.files + added, bytes: before.bytes + growth };
    if ((added > 0 || growth > 0) && !this.#fits(used)) return false;
    // Count the folders even if the file cannot be created, because they already exist.
    this.#used.set(minionId, {
      files: before.files + folders,
      bytes: before.bytes + folders * leastFileBytes,
    });
    const handle = await openBelow(base, place, offset === 0);
    if (handle === undefined) return false;
    try {
      await handle.write(data, 0, data.length, offset);
    } finally {
      await handle.close();
    }
    this.#used.set(minionId, used);
    return true;
  }

  #fits({ files, bytes }: Use): boolean {
    const { maxMinionBytes, maxMinionFiles } = this.#options;
    if (maxMinionFiles > 0 && files > maxMinionFiles) return false;
    return maxMinionBytes === 0 || bytes <= maxMinionBytes;
  }

  /**
   * Returns the disk usage of a minion's files. It is measured once per minion after a start, and
   * then updated.
   */
  async #usedBy(minionId: string, base: string): Promise<Use> {
    const known = this.#used.get(minionId);
    if (known !== undefined) return known;
    const names = (await ifPresent(readdir(base, { recursive: true }))) ?? [];
    let bytes = 0;
    for (const name of names) {
      const stats = await lstat(path.join(base, name));
      bytes += roomOf(stats.isFile() ? stats.size : 0);
    }
    const used = { files: names.length, bytes };
    this.#used.set(minionId, used);
    return used;
  }
}

/** Returns the number of folders to create for a file. */
async function missingFolders(base: string, file: string): Promise<number> {
  const folders = file.split('/').slice(0, -1);
  for (let there = folders.length; there > 0; there -= 1) {
    const place = path.join(base, ...folders.slice(0, there));
    if ((await ifPresent(stat(place))) !== undefined) return folders.length - there;
  }
  return folders.length;
}

function roomOf(size: number): number {
  return Math.max(size, leastFileBytes);
}

/**
 * Returns the path of a pushed file below its minion's folder, or `undefined` if the path is not
 * valid.
 */
export function pushedPath({ path: names }: WireMap): string | undefined {
  if (!Array.isArray(names) || !names.every((name) => typeof name === 'string')) return undefined;
  return relativePath(names.join('/'));
}

function parsePart(load: WireMap): Part | undefined {
  const { loc, data } = load;
  const bytes = wireBytes(data);
  const file = pushedPath(load);
  const isOffset = typeof loc === 'number' && Number.isSafeInteger(loc) && loc >= 0;
  if (file === undefined || bytes === undefined || !isOffset) return undefined;
  return { file, offset: loc, data: bytes };
}

/** Opens a file whose real folder is in `base`. Does not open links. */
async function openBelow(
  base: string,
  place: string,
  isNew: boolean,
): Promise<FileHandle | undefined> {
  await makeDirectory(base, 0o700);
  const realBase = await realpath(base);
  const existing = await nearestFolder(path.dirname(place));
  if (!isBelow(realBase, existing)) return undefined;
  const making = mkdir(path.dirname(place), { recursive: true, mode: 0o700 }).then(() => true);
  if ((await ifPresent(making)) === undefined) return undefined;
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW;
  return ifPresent(open(place, isNew ? flags | constants.O_TRUNC : flags, 0o600));
}

/** Returns the real path of the nearest existing folder of `place`. */
async function nearestFolder(place: string): Promise<string> {
  return (await ifPresent(realpath(place))) ?? (await nearestFolder(path.dirname(place)));
}
