/**
 * Reads packs from the centre in parts. Received bytes stay on disk until the pack is complete, so
 * an interrupted transfer continues with the next byte.
 */

import { createHash, hash } from 'node:crypto';
import { open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import { createZstdDecompress } from 'node:zlib';
import { ifPresent, makeDirectory } from '#runtime';
import { EdgeError } from '../errors.ts';
import type { SiteLink } from '../link/link.ts';
import { type InlinePack, type Pack, partBytes } from './bundle-messages.ts';
import { decompressionOptions } from './pack-content.ts';

/** Maximum number of attempts to read a part whose digest does not match. */
const attemptsPerPart = 3;

/** Suffix of the name of a file that contains the first bytes of an incomplete part. */
const partialSuffix = '.partial';

/** Downloads packs from the centre, and stores their parts on the disk of the site. */
export class PackFetcher {
  readonly #directory: string;
  readonly #link: Pick<SiteLink, 'get'>;

  /** @param directory - directory for the parts of packs. Nothing else may use it */
  constructor(directory: string, link: Pick<SiteLink, 'get'>) {
    this.#directory = directory;
    this.#link = link;
  }

  /**
   * Reads the missing parts of a pack and verifies the digest of the pack. Does nothing for an
   * inline pack. The caller must verify the decompressed content of every pack.
   * @throws EdgeError ERR_BUNDLE_CONTENT, ERR_SITE_LINK
   */
  async fetch(pack: InlinePack | Pack, signal?: AbortSignal): Promise<void> {
    if ('bytes' in pack) return;
    const directory = this.#directoryOf(pack);
    await makeDirectory(directory, 0o700);
    const { parts } = pack;
    if (parts !== undefined && parts.length !== partCount(pack) * 32) {
      throw new EdgeError(
        'ERR_BUNDLE_CONTENT',
        'the number of digests differs from the number of parts of the pack',
      );
    }
    for (let index = 0; index < partCount(pack); index++) {
      const size = (await ifPresent(stat(path.join(directory, String(index)))))?.size;
      if (size !== partLength(pack, index)) await this.#part(pack, index, signal);
    }
    await this.#verify(pack);
  }

  /**
   * Returns the decompressed content of a fetched pack. The caller must stop reading when the
   * stream exceeds the expected size.
   */
  content(pack: InlinePack | Pack, dictionary: Buffer): Readable {
    const decompressor = createZstdDecompress(decompressionOptions(dictionary));
    const compressed = Readable.from('bytes' in pack ? [pack.bytes] : this.#bytes(pack));
    compressed.on('error', (error) => decompressor.destroy(error));
    return compressed.pipe(decompressor);
  }

  /** Deletes the downloaded parts of packs, except those of the given packs. */
  async keepOnly(packs: readonly (InlinePack | Pack)[]): Promise<void> {
    const kept = new Set(packs.flatMap((pack) => ('bytes' in pack ? [] : pack.sha256)));
    for (const name of (await ifPresent(readdir(this.#directory))) ?? []) {
      if (!kept.has(name)) {
        await rm(path.join(this.#directory, name), { recursive: true, force: true });
      }
    }
  }

  async #part(pack: Pack, index: number, signal: AbortSignal | undefined): Promise<void> {
    const file = path.join(this.#directoryOf(pack), String(index));
    const partial = `${file}${partialSuffix}`;
    for (let attempt = 1; ; attempt++) {
      await this.#read(pack, index, partial, signal);
      const bytes = await readFile(partial);
      if (bytes.length === partLength(pack, index) && isPart(pack, index, bytes)) {
        await rename(partial, file);
        return;
      }
      await rm(partial, { force: true });
      if (attempt < attemptsPerPart) continue;
      const problem = `part ${index} of the pack does not match its digest`;
      throw new EdgeError('ERR_BUNDLE_CONTENT', problem);
    }
  }

  /**
   * Downloads the missing bytes of one part of a pack, and appends them to the file of this part.
   */
  async #read(
    pack: Pack,
    index: number,
    partial: string,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const handle = await open(partial, 'a', 0o600);
    try {
      const { size: from } = await handle.stat();
      if (from >= partLength(pack, index)) return;
      const range = { from, maxBytes: partLength(pack, index) };
      const stream = await this.#link.get(`/packs/${pack.id}/${index}`, range, signal);
      for await (const chunk of stream) await handle.write(Buffer.from(chunk));
    } finally {
      await handle.close();
    }
  }

  async #verify(pack: Pack): Promise<void> {
    const hash = createHash('sha256');
    for await (const bytes of this.#bytes(pack)) hash.update(bytes);
    if (hash.digest('hex') === pack.sha256) return;
    await rm(this.#directoryOf(pack), { recursive: true, force: true });
    throw new EdgeError('ERR_BUNDLE_CONTENT', 'the pack does not match its digest');
  }

  async *#bytes(pack: Pack): AsyncGenerator<Buffer> {
    for (let index = 0; index < partCount(pack); index++) {
      yield await readFile(path.join(this.#directoryOf(pack), String(index)));
    }
  }

  #directoryOf({ sha256 }: Pack): string {
    return path.join(this.#directory, sha256);
  }
}

function partCount({ length }: Pack): number {
  return Math.ceil(length / partBytes);
}

function partLength({ length }: Pack, index: number): number {
  return Math.min(partBytes, length - index * partBytes);
}

function isPart({ parts }: Pack, index: number, bytes: Buffer): boolean {
  if (parts === undefined) return true;
  const expected = parts.subarray(index * 32, index * 32 + 32);
  return hash('sha256', bytes, 'buffer').equals(expected);
}
