/** Creates packs, and stores them in a directory of the centre. */

import { createHash, createHmac, hash, randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { open, readdir, readFile, rename, rm, stat, unlink, utimes } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createZstdCompress } from 'node:zlib';
import { createBoundedMap, ifPresent, makeDirectory, syncDirectory } from '#runtime';
import { edgeLimits } from '../limits.ts';
import {
  type InlinePack,
  maxInlineBytes,
  maxPartDigests,
  type Pack,
  type PackReply,
  partBytes,
} from './bundle-messages.ts';
import type { Manifest } from './manifest.ts';
import type { ObjectStore } from './object-store.ts';
import { compressionOptions, dictionaryFiles, packedFiles, totalBytes } from './pack-content.ts';
import { SharedTasks } from './shared-tasks.ts';

/**
 * Maximum total size of the packs on disk, in bytes. If they exceed it, the least recently used
 * packs are deleted.
 */
const maxCacheBytes = 8 * 2 ** 30;

/** Manifest of a release, with its SHA-256 digest and its encoded bytes. */
export interface StoredManifest {
  readonly sha256: string;
  readonly bytes: Buffer;
  readonly manifest: Manifest;
}

/** Packs with which a site can replace one bundle by another. */
export interface Packs {
  /** Whether the packs are compressed with files of the former bundle as the dictionary. */
  readonly isDelta: boolean;
  readonly manifest: Pack;
  /** Pack of the new files. Absent if the former bundle contains all files. */
  readonly files?: Pack;
}

export interface PackCacheOptions {
  readonly directory: string;
  readonly objects: ObjectStore;
  /** Secret key from which the ids of packs are derived, so that no client can guess an id. */
  readonly secret: Uint8Array;
  /**
   * Returns the manifests of all releases, from which this member can recreate a pack. A site may
   * request a pack by the id that another member of the cluster has sent. Default: returns none, so
   * that only packs of this member can be read.
   */
  readonly manifests?: () => Promise<readonly StoredManifest[]>;
}

/** Kinds of packs: a manifest, or the new files of a bundle. */
const kinds = ['manifest', 'files'] as const;
type Kind = (typeof kinds)[number];

/**
 * Length of the first half of a pack's id, in hexadecimal digits. All members of a cluster derive
 * the same first half.
 */
const placeDigits = 32;

/** Packs that can be created, by place: the first half of their ids. */
interface Places {
  /** Digests of the manifests of the releases. */
  readonly releases: string;
  /** Digests of the manifests of the former and the new release. */
  readonly of: ReadonlyMap<string, { readonly from: string | undefined; readonly to: string }>;
}

/** Files of a pack. */
interface Changes {
  readonly count: number;
  /** Total size of the files, in bytes. */
  readonly bytes: number;
}

/** Packs of a centre. Each pack is created once, and all sites read the same pack. */
export class PackCache {
  readonly #directory: string;
  readonly #objects: ObjectStore;
  readonly #secret: Uint8Array;
  readonly #manifests: NonNullable<PackCacheOptions['manifests']>;
  /** Number and size of the files of packs, by the place of the pack. */
  readonly #changes = createBoundedMap<string, Changes>(edgeLimits.comparedReleases);
  readonly #described = createBoundedMap<string, Pack>(edgeLimits.describedPacks);
  /**
   * Packs that are being created. Each takes much memory while it is compressed, and sites choose
   * the packs. Packs of manifests are small, so they do not wait for packs of files.
   */
  readonly #compressing: Readonly<Record<Kind, SharedTasks<Pack>>> = {
    manifest: new SharedTasks(edgeLimits.compressedPacks),
    files: new SharedTasks(edgeLimits.compressedPacks),
  };
  #places: Places | undefined;
  #isReady: Promise<unknown> | undefined;

  constructor({ directory, objects, secret, manifests = async () => [] }: PackCacheOptions) {
    this.#directory = directory;
    this.#objects = objects;
    this.#secret = secret;
    this.#manifests = manifests;
  }

  /**
   * Returns the packs with which a site can replace one bundle by another. Creates missing packs.
   * @param owner - name of the site. Default: the owner of all requests without a site
   * @param mayWait - whether a pack may wait for those of other sites. Default: true
   * @throws LimitExceeded if a pack must wait but may not
   */
  async packsFor(
    from: StoredManifest | undefined,
    to: StoredManifest,
    owner = '',
    mayWait = true,
  ): Promise<Packs> {
    const files = this.#changesOf(from, to);
    const former = from?.bytes ?? Buffer.alloc(0);
    const pack = async (kind: Kind, bytes: number, sources: PackSources): Promise<Pack> => {
      const place = this.#placeOf(kind, from, to);
      const make = (): Promise<Pack> => this.#findOrMake(place, bytes, sources);
      const found = await this.#findUsed(place);
      return found ?? (await this.#compressing[kind].run(place, owner, make, mayWait));
    };
    const manifest = await pack('manifest', to.bytes.length, {
      dictionary: async () => former,
      content: () => Readable.from([to.bytes]),
    });
    return {
      isDelta: from !== undefined,
      manifest,
      ...(files.count === 0
        ? {}
        : {
            files: await pack('files', files.bytes, {
              dictionary: () => this.#dictionary(from, to),
              content: () =>
                Readable.from(this.#contents(packedFiles(from?.manifest, to.manifest))),
            }),
          }),
    };
  }

  /**
   * Returns the number and the size of the files that one bundle has and the other lacks. Any site
   * may ask for packs, so two manifests with many files are compared once.
   */
  #changesOf(from: StoredManifest | undefined, to: StoredManifest): Changes {
    const place = this.#placeOf('files', from, to);
    const known = this.#changes.get(place);
    if (known !== undefined) return known;
    const files = packedFiles(from?.manifest, to.manifest);
    const found = { count: files.length, bytes: totalBytes(files) };
    this.#changes.set(place, found);
    return found;
  }

  /**
   * Replaces the descriptions of small packs by the bytes of these packs, for a reply. The pack of
   * the manifest is small up to {@link maxInlineBytes}. The pack of the files is small if both
   * packs together do not exceed this size.
   */
  async inlined({ isDelta, manifest, files }: Packs): Promise<PackReply> {
    const isSmall = manifest.length <= maxInlineBytes;
    const areSmall = manifest.length + (files?.length ?? 0) <= maxInlineBytes;
    return {
      isDelta,
      manifest: isSmall ? await this.#inline(manifest) : manifest,
      ...(files === undefined ? {} : { files: areSmall ? await this.#inline(files) : files }),
    };
  }

  async #inline(pack: Pack): Promise<InlinePack | Pack> {
    const bytes = await this.part(pack.id, 0);
    return bytes === undefined ? pack : { bytes };
  }

  /**
   * Returns a part of the pack with this id, or `undefined` if it does not exist.
   * @param index - index of the part, from 0
   */
  async part(id: string, index: number): Promise<Buffer | undefined> {
    if (!/^[0-9a-f]{64}$/.test(id) || !Number.isSafeInteger(index) || index < 0) return undefined;
    const place = id.slice(0, placeDigits);
    const pack = (await this.#find(place)) ?? (await this.#restore(place));
    // Another version of the compressor can create another content at the same place.
    if (pack?.id !== id) return undefined;
    const handle = await ifPresent(open(this.#fileOf(place)));
    if (handle === undefined) return undefined;
    try {
      const part = Buffer.alloc(partBytes);
      const { bytesRead } = await handle.read(part, 0, partBytes, index * partBytes);
      return bytesRead === 0 ? undefined : part.subarray(0, bytesRead);
    } finally {
      await handle.close();
    }
  }

  /**
   * Creates a pack again if this member no longer has it, or has never had it. Returns `undefined`
   * if no known release has this pack.
   * @param place - first half of the pack's id
   */
  async #restore(place: string): Promise<Pack | undefined> {
    const all = await this.#manifests();
    const releases = all.map(({ sha256 }) => sha256).join();
    // Anyone may ask for a pack, so the places are computed once for each set of releases.
    if (this.#places?.releases !== releases) this.#places = { releases, of: this.#placesOf(all) };
    const pair = this.#places.of.get(place);
    const to = all.find(({ sha256 }) => sha256 === pair?.to);
    if (to === undefined) return undefined;
    const from = all.find(({ sha256 }) => sha256 === pair?.from);
    await this.packsFor(from, to);
    return this.#find(place);
  }

  /** Returns the places of all packs between these releases. */
  #placesOf(all: readonly StoredManifest[]): Places['of'] {
    const places = new Map<string, { from: string | undefined; to: string }>();
    for (const to of all) {
      for (const from of [undefined, ...all]) {
        const pair = { from: from?.sha256, to: to.sha256 };
        for (const kind of kinds) places.set(this.#placeOf(kind, from, to), pair);
      }
    }
    return places;
  }

  /**
   * Returns the first half of a pack's id. The file of the pack has this half as its name. All
   * members of a cluster derive the same first half. The second half depends on the content of the
   * pack.
   */
  #placeOf(kind: Kind, from: StoredManifest | undefined, to: StoredManifest): string {
    const text = `${kind} ${from?.sha256 ?? 'none'} ${to.sha256}`;
    const mac = createHmac('sha256', this.#secret).update(text).digest('hex');
    return mac.slice(0, placeDigits);
  }

  #fileOf(place: string): string {
    return path.join(this.#directory, place);
  }

  /**
   * Returns the pack whose id begins with `place`, or `undefined` if this member does not have it.
   */
  async #find(place: string): Promise<Pack | undefined> {
    const file = this.#fileOf(place);
    const found = await ifPresent(stat(file));
    if (found === undefined) return undefined;
    const known = this.#described.get(place);
    if (known !== undefined) return known;
    const pack = await describePack(place, file);
    this.#described.set(place, pack);
    return pack;
  }

  /** Finds a pack like {@link PackCache.#find}, and notes that it is in use. */
  async #findUsed(place: string): Promise<Pack | undefined> {
    this.#isReady ??= this.#prepare();
    await this.#isReady;
    const found = await this.#find(place);
    if (found !== undefined) await utimes(this.#fileOf(place), new Date(), new Date());
    return found;
  }

  async #findOrMake(place: string, bytes: number, sources: PackSources): Promise<Pack> {
    const found = await this.#findUsed(place);
    if (found !== undefined) return found;
    const file = this.#fileOf(place);
    await this.#make(file, bytes, sources);
    await this.#evict(file);
    const pack = await describePack(place, file);
    this.#described.set(place, pack);
    return pack;
  }

  async #prepare(): Promise<void> {
    const incomplete = path.join(this.#directory, 'new');
    await rm(incomplete, { recursive: true, force: true });
    await makeDirectory(incomplete, 0o700);
  }

  async #make(file: string, bytes: number, { dictionary, content }: PackSources): Promise<void> {
    const temporary = path.join(this.#directory, 'new', randomBytes(12).toString('hex'));
    try {
      // The compressor runs in a thread of Node's thread pool.
      const compressor = createZstdCompress(compressionOptions(bytes, await dictionary()));
      const target = createWriteStream(temporary, { flags: 'wx', mode: 0o600, flush: true });
      await pipeline(content(), compressor, target);
      await rename(temporary, file);
      await syncDirectory(this.#directory);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  }

  async #dictionary(from: StoredManifest | undefined, to: StoredManifest): Promise<Buffer> {
    const contents: Buffer[] = [];
    for (const { sha256 } of dictionaryFiles(from?.manifest, to.manifest)) {
      contents.push(await readFile(await this.#objects.fileOf(sha256)));
    }
    return Buffer.concat(contents);
  }

  async *#contents(files: readonly { readonly sha256: string }[]): AsyncGenerator<Buffer> {
    for (const { sha256 } of files) yield* createReadStream(await this.#objects.fileOf(sha256));
  }

  async #evict(made: string): Promise<void> {
    const names = await readdir(this.#directory);
    const packs = [];
    for (const name of names.filter((it) => it !== 'new')) {
      const file = path.join(this.#directory, name);
      const { size, atimeMs } = await stat(file);
      packs.push({ file, size, usedAt: file === made ? Number.POSITIVE_INFINITY : atimeMs });
    }
    let bytes = 0;
    for (const { file, size } of packs.sort((a, b) => b.usedAt - a.usedAt)) {
      bytes += size;
      if (bytes > maxCacheBytes && file !== made) await unlink(file);
    }
  }
}

interface PackSources {
  readonly dictionary: () => Promise<Buffer>;
  readonly content: () => Readable;
}

async function describePack(place: string, file: string): Promise<Pack> {
  const whole = createHash('sha256');
  const parts: Buffer[] = [];
  let length = 0;
  for await (const part of createReadStream(file, { highWaterMark: partBytes })) {
    whole.update(part);
    length += part.length;
    if (parts.length <= maxPartDigests) parts.push(hash('sha256', part, 'buffer'));
  }
  const sha256 = whole.digest('hex');
  return {
    id: `${place}${sha256.slice(placeDigits)}`,
    sha256,
    length,
    ...(parts.length > maxPartDigests ? {} : { parts: Buffer.concat(parts) }),
  };
}
