/**
 * Stores the files of releases in the store that the members of a cluster share. Each member can
 * read the releases that another member has packed, even if that other member is lost.
 */

import { open } from 'node:fs/promises';
import { promisify } from 'node:util';
import { zstdCompress, zstdDecompress } from 'node:zlib';
import Type from 'typebox';
import type { SharedArea, StateOperation } from '#master';
import { Bytes, defineRow, type Key, writeInParts } from '#store';
import { EdgeError } from '../errors.ts';
import type { ObjectSource } from './object-store.ts';

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/**
 * Maximum size of a slice of a file, before its compression, in bytes. A write to the log of the
 * cluster must not be much larger.
 */
const sliceBytes = 262_144;

/** Maximum number of files that one write deletes. */
const deletedAtOnce = 100;

const objectRow = defineRow({
  name: 'content of a release',
  schema: Type.Object({ slices: Type.Integer({ minimum: 1 }) }),
});
const sliceRow = defineRow({
  name: 'slice of a content of a release',
  schema: Type.Object({ bytes: Bytes }),
});

const objectPrefix: Key = ['bundle', 'object'];
const slicePrefix: Key = ['bundle', 'slice'];
const markKey: Key = ['bundle', 'object-mark'];

function sliceKey(sha256: string, index: number): Key {
  return [...slicePrefix, sha256, String(index).padStart(6, '0')];
}

/**
 * Operation that protects the files of a new release. A member writes it in the same transaction as
 * the release. If another member is just deleting unused files, its {@link SharedObjects.keepOnly}
 * then fails before it deletes files of the new release.
 */
export const markObjects: StateOperation = { op: 'put', key: markKey, value: Buffer.alloc(0) };

export class SharedObjects implements ObjectSource {
  readonly #rows: Pick<SharedArea, 'get' | 'list' | 'write'>;

  constructor(rows: Pick<SharedArea, 'get' | 'list' | 'write'>) {
    this.#rows = rows;
  }

  /**
   * Stores those files that the store lacks. Resolves when all files are stored.
   * @param digests - SHA-256 digests of the files
   * @param fileOf - returns the path of a file with the given digest
   * @throws the error of `fileOf`
   */
  async addAll(
    digests: Iterable<string>,
    fileOf: (sha256: string) => Promise<string>,
  ): Promise<void> {
    let waiting: StateOperation[] = [];
    let bytes = 0;
    for (const sha256 of digests) {
      if (await this.#has(sha256)) continue;
      for await (const operation of operationsOf(sha256, await fileOf(sha256))) {
        waiting.push(operation);
        bytes += 'value' in operation ? operation.value.length : 0;
        if (bytes < sliceBytes) continue;
        await writeInParts(this.#rows, waiting);
        waiting = [];
        bytes = 0;
      }
    }
    await writeInParts(this.#rows, waiting);
  }

  /**
   * Returns the content with this digest, or `undefined` if the store does not have the whole
   * content.
   */
  async read(sha256: string): Promise<AsyncIterable<Uint8Array> | undefined> {
    return (await this.#has(sha256)) ? this.#slices(sha256) : undefined;
  }

  /**
   * Returns the revision to pass to {@link keepOnly}. Call this method before you read the list of
   * releases, so that `keepOnly` detects a release that was added meanwhile.
   */
  async revision(): Promise<number> {
    return (await this.#rows.get(markKey))?.revision ?? 0;
  }

  /**
   * Deletes all contents except those with the given digests.
   * @param revision - result of {@link revision}
   * @throws StoreError ERR_REVISION if a member has added a release meanwhile
   */
  async keepOnly(digests: ReadonlySet<string>, revision: number): Promise<void> {
    const unused: string[] = [];
    for await (const { key } of this.#rows.list(objectPrefix)) {
      const sha256 = key.at(-1) ?? '';
      if (!digests.has(sha256)) unused.push(sha256);
    }
    for (let begin = 0; begin < unused.length; begin += deletedAtOnce) {
      const operations = unused
        .slice(begin, begin + deletedAtOnce)
        .flatMap((sha256): readonly StateOperation[] => [
          { op: 'delete', key: [...objectPrefix, sha256] },
          { op: 'delete-prefix', prefix: [...slicePrefix, sha256] },
        ]);
      const guard: StateOperation = { op: 'require', key: markKey, ifRevision: revision };
      await this.#rows.write([guard, ...operations]);
    }
  }

  /**
   * Returns whether the store has all slices of a file. Slices are written in order, so it is
   * enough to look for the last slice.
   */
  async #has(sha256: string): Promise<boolean> {
    const entry = await this.#rows.get([...objectPrefix, sha256]);
    if (entry === undefined) return false;
    const { slices } = objectRow.decode(entry);
    return (await this.#rows.get(sliceKey(sha256, slices - 1))) !== undefined;
  }

  async *#slices(sha256: string): AsyncGenerator<Uint8Array> {
    const entry = await this.#rows.get([...objectPrefix, sha256]);
    const count = entry === undefined ? 0 : objectRow.decode(entry).slices;
    for (let index = 0; index < count; index += 1) {
      const slice = await this.#rows.get(sliceKey(sha256, index));
      if (slice === undefined) {
        const problem = `the content ${sha256} of a release was deleted meanwhile`;
        throw new EdgeError('ERR_RELEASE', problem);
      }
      yield await decompress(sliceRow.decode(slice).bytes, { maxOutputLength: sliceBytes });
    }
  }
}

/** Yields the operations that store a file, in the order in which they must be written. */
async function* operationsOf(sha256: string, file: string): AsyncGenerator<StateOperation> {
  const handle = await open(file);
  try {
    const { size } = await handle.stat();
    const slices = Math.max(1, Math.ceil(size / sliceBytes));
    yield { op: 'put', key: [...objectPrefix, sha256], value: objectRow.encode({ slices }) };
    for (let index = 0; index < slices; index += 1) {
      const slice = Buffer.allocUnsafe(Math.min(sliceBytes, size - index * sliceBytes));
      await handle.read(slice, 0, slice.length, index * sliceBytes);
      const bytes = await compress(slice);
      yield { op: 'put', key: sliceKey(sha256, index), value: sliceRow.encode({ bytes }) };
    }
  } finally {
    await handle.close();
  }
}
