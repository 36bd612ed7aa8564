import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { open } from 'node:fs/promises';
import type { HashType } from '../config/options.ts';

/** Digests that are kept; each is some 200 bytes. */
const maxKept = 50_000;
const sliceBytes = 256 * 1024;
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
  readonly #kept = new Map<string, string>();
  readonly #underWay = new Map<string, Promise<string>>();

  /** @param now milliseconds since 1970, by the clock that files are stamped with */
  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /** @param file absolute path @param version of the content that is meant */
  async hash(file: string, version: FileVersion, type: HashType): Promise<string> {
    const { inode, size, modifiedAt, changedAt } = version;
    // protection: hash-by-name-1
    const mark = `${type} ${inode} ${size} ${modifiedAt} ${changedAt} ${file}`;
    const known = this.#kept.get(mark) ?? this.#underWay.get(mark);
    if (known !== undefined) return known;
    const isSettled = changedAt / 1_000_000n < BigInt(this.#now() - settledAfterMs);
    const hashing = hashFile(file, type)
      .then((digest) => {
        // protection: hash-by-name-2
        if (isSettled) this.#keep(mark, digest);
        return digest;
      })
      .finally(() => this.#underWay.delete(mark));
    this.#underWay.set(mark, hashing);
    return hashing;
  }

  #keep(mark: string, digest: string): void {
    this.#kept.set(mark, digest);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > maxKept && oldest !== undefined) this.#kept.delete(oldest);
  }
}

async function hashFile(file: string, type: HashType): Promise<string> {
  const handle = await open(file);
  try {
    return await hashHandle(handle, type);
  } finally {
    await handle.close();
  }
}

async function hashHandle(handle: FileHandle, type: HashType): Promise<string> {
  const hash = createHash(type);
  const slice = Buffer.allocUnsafe(sliceBytes);
  for (;;) {
    const { bytesRead } = await handle.read(slice, 0, sliceBytes);
    if (bytesRead === 0) return hash.digest('hex');
    hash.update(slice.subarray(0, bytesRead));
  }
}
