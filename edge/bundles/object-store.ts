/** Stores the contents of files under their digests, in a directory of the centre. */

import { createHash, hash, randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, readdir, rename, rm, stat, unlink } from 'node:fs/promises';
import path from 'node:path';
import { ifPresent, makeDirectory, syncDirectory } from '#runtime';
import { EdgeError } from '../errors.ts';

const sliceBytes = 262_144;

/** Digest of a stored file content, and its size in bytes. */
export interface StoredObject {
  readonly sha256: string;
  readonly length: number;
}

/** Source from which an {@link ObjectStore} reads file contents that it lacks. */
export interface ObjectSource {
  /** Returns the content with this digest, or `undefined` if the source does not have it. */
  read(sha256: string): Promise<AsyncIterable<Uint8Array> | undefined>;
}

/** Contents of files, each stored once under its SHA-256 digest. */
export class ObjectStore {
  readonly #directory: string;
  readonly #source: ObjectSource | undefined;

  /** @param source - source of missing contents. Default: none */
  constructor(directory: string, source?: ObjectSource) {
    this.#directory = directory;
    this.#source = source;
  }

  /**
   * Returns the path at which the store keeps the content with this digest. The file need not
   * exist.
   */
  pathOf(sha256: string): string {
    return path.join(this.#directory, sha256.slice(0, 2), sha256);
  }

  /**
   * Returns the path of the file that contains the content with this digest. If the file is
   * missing, reads the content from the source and verifies its digest.
   * @throws EdgeError ERR_RELEASE if the content is missing or altered
   */
  async fileOf(sha256: string): Promise<string> {
    if (await this.#has(sha256)) return this.pathOf(sha256);
    const content = await this.#source?.read(sha256);
    if (content === undefined) {
      const problem = `the content ${sha256} of a release is missing; push the release again`;
      throw new EdgeError('ERR_RELEASE', problem);
    }
    await this.#copy(content, sha256);
    return this.pathOf(sha256);
  }

  /**
   * Copies a file into the store.
   * @param maxBytes - maximum size of the file
   * @throws EdgeError ERR_RELEASE if the file is larger than `maxBytes`
   */
  async add(file: string, maxBytes: number): Promise<StoredObject> {
    const source = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
    try {
      return await this.#copyFrom(source, file, maxBytes);
    } finally {
      await source.close();
    }
  }

  /** Stores bytes under their digest. Does nothing if the store has them already. */
  async put(bytes: Uint8Array): Promise<StoredObject> {
    const sha256 = hash('sha256', bytes);
    if (!(await this.#has(sha256))) {
      const temporary = await this.#temporary();
      const handle = await open(temporary, 'wx', 0o600);
      try {
        await handle.writeFile(bytes);
        await this.#keep(handle, temporary, sha256);
      } finally {
        await handle.close();
      }
    }
    return { sha256, length: bytes.length };
  }

  /** Deletes all contents except those with the given digests. */
  async keepOnly(digests: ReadonlySet<string>): Promise<void> {
    for (const group of await namesIn(this.#directory)) {
      for (const name of await namesIn(path.join(this.#directory, group))) {
        if (!digests.has(name)) await unlink(path.join(this.#directory, group, name));
      }
    }
  }

  /**
   * Stores file content that was read from the source, and verifies its digest.
   * @throws EdgeError ERR_RELEASE if the content has another digest
   */
  async #copy(content: AsyncIterable<Uint8Array>, sha256: string): Promise<void> {
    const temporary = await this.#temporary();
    const target = await open(temporary, 'wx', 0o600);
    try {
      const hash = createHash('sha256');
      for await (const slice of content) {
        hash.update(slice);
        await target.writeFile(slice);
      }
      if (hash.digest('hex') !== sha256) {
        const problem = `the content ${sha256} of a release does not match its digest`;
        throw new EdgeError('ERR_RELEASE', problem);
      }
      await this.#keep(target, temporary, sha256);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    } finally {
      await target.close();
    }
  }

  async #copyFrom(source: FileHandle, file: string, maxBytes: number): Promise<StoredObject> {
    const temporary = await this.#temporary();
    const target = await open(temporary, 'wx', 0o600);
    try {
      return await this.#copyTo(target, temporary, source, file, maxBytes);
    } finally {
      await target.close();
    }
  }

  async #copyTo(
    target: FileHandle,
    temporary: string,
    source: FileHandle,
    file: string,
    maxBytes: number,
  ): Promise<StoredObject> {
    const hash = createHash('sha256');
    const slice = Buffer.allocUnsafe(sliceBytes);
    let length = 0;
    for (;;) {
      const { bytesRead } = await source.read(slice, 0, sliceBytes);
      if (bytesRead === 0) break;
      length += bytesRead;
      if (length > maxBytes) {
        await unlink(temporary);
        throw new EdgeError(
          'ERR_RELEASE',
          `${file}: the files of the release exceed the maximum size of a release`,
        );
      }
      hash.update(slice.subarray(0, bytesRead));
      await target.writeFile(slice.subarray(0, bytesRead));
    }
    const sha256 = hash.digest('hex');
    if (await this.#has(sha256)) await unlink(temporary);
    else await this.#keep(target, temporary, sha256);
    return { sha256, length };
  }

  async #keep(handle: FileHandle, temporary: string, sha256: string): Promise<void> {
    await handle.sync();
    const group = path.join(this.#directory, sha256.slice(0, 2));
    await makeDirectory(group, 0o700);
    await rename(temporary, this.pathOf(sha256));
    await syncDirectory(group);
  }

  async #has(sha256: string): Promise<boolean> {
    return (await ifPresent(stat(this.pathOf(sha256)))) !== undefined;
  }

  async #temporary(): Promise<string> {
    const directory = path.join(this.#directory, 'new');
    await makeDirectory(directory, 0o700);
    return path.join(directory, randomBytes(12).toString('hex'));
  }
}

async function namesIn(directory: string): Promise<readonly string[]> {
  return (await ifPresent(readdir(directory))) ?? [];
}
