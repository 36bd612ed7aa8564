/**
 * The pillar cache, in memory and in the store. Each minion has one entry. It contains the minion's
 * pillars and their dependencies: files, lists and grains.
 */

import type { LRUCache } from 'lru-cache';
import Type from 'typebox';
import type { Auth } from '#master';
import {
  type FactMap,
  type PayloadLimits,
  packLocal,
  unpackLocal,
  type WireMap,
} from '#minion-protocol';
import { createBoundedMap } from '#runtime';
import { Bytes, defineRow, type Key, type Operation, type Store } from '#store';
import { saltLimits } from '../limits.ts';
import { GrainReads } from '../render/grains.ts';
import type { PillarAnswer } from '../render/pillar-source.ts';
import type { PillarSources } from '../render/pillar-sources.ts';
import type { CacheDependencies } from '../render/reads.ts';

/** Whether the files and file lists from which a cached pillar was compiled are unchanged. */
export async function areFilesCurrent(
  { files, lists }: CacheDependencies,
  sources: PillarSources,
): Promise<boolean> {
  const looks = [
    ...files.map(async ({ path, saltenv, digest }) => {
      return (await sources.digest(path, saltenv)) === digest;
    }),
    ...lists.map(async ({ saltenv, digest }) => {
      return sources.namesDigest(await sources.lists(saltenv)) === digest;
    }),
  ];
  return (await Promise.all(looks)).every((isSame) => isSame);
}

/** Schema of the stored dependencies of a cached pillar. */
export const StoredDependencies = Type.Object({
  /** Files that were read: environment, path and digest; `null` if the file did not exist. */
  files: Type.Array(
    Type.Tuple([Type.String(), Type.String(), Type.Union([Type.String(), Type.Null()])]),
  ),
  /** File lists that were read: environment and digest. */
  lists: Type.Array(Type.Tuple([Type.String(), Type.String()])),
  /** Grains that were read: name and value; `null` if the grain did not exist. */
  grains: Type.Array(Type.Tuple([Type.String(), Type.Union([Bytes, Type.Null()])])),
  whole: Type.Union([Bytes, Type.Null()]),
});

/** Schema of a stored pillar with its dependencies. */
const StoredPillar = Type.Object({
  saltenv: Type.Union([Type.String(), Type.Null()]),
  pillarenv: Type.Union([Type.String(), Type.Null()]),
  lower: Type.String(),
  rules: Type.String(),
  from: StoredDependencies,
  pillar: Bytes,
  /**
   * Second version of the pillar, which was compiled without grains, in packed form. Absent if it
   * equals `pillar`.
   */
  proven: Type.Optional(Bytes),
});
type StoredPillar = Type.Static<typeof StoredPillar>;

/**
 * Schema of the encrypted rows `pillar-cache/<id>` in the store, and of the packed entries in
 * memory.
 */
const pillarsRow = defineRow({
  name: 'cached pillar',
  schema: Type.Object({ id: Type.String(), pillars: Type.Array(StoredPillar) }),
  unversioned: (bytes) => unpackLocal(bytes, keptLimits),
});

function packDependencies({ files, lists, grains }: CacheDependencies): StoredPillar['from'] {
  return {
    files: files.map(({ saltenv, path, digest }) => [saltenv, path, digest ?? null]),
    lists: lists.map(({ saltenv, digest }) => [saltenv, digest]),
    grains: Array.from(grains.values, ([name, value]) => [name, value]),
    whole: grains.whole ?? null,
  };
}

function unpackDependencies(from: StoredPillar['from']): CacheDependencies {
  const grains = new GrainReads();
  for (const [name, read] of from.grains) grains.values.set(name, read && Buffer.from(read));
  grains.whole = from.whole === null ? undefined : Buffer.from(from.whole);
  return {
    files: from.files.map(([saltenv, path, digest]) => ({
      saltenv,
      path,
      digest: digest ?? undefined,
    })),
    lists: from.lists.map(([saltenv, digest]) => ({ saltenv, digest })),
    grains,
  };
}

/** A packed pillar and its dependencies. The pillar is valid while these are unchanged. */
export interface CachedPillar {
  readonly madeFrom: CacheDependencies;
  /** Packed pillar. Unpacked objects would take about ten times the memory. */
  readonly pillar: Uint8Array;
  /**
   * Packed pillar that the minion would receive if the master did not know its grains. If it equals
   * `pillar`, both properties contain the same object.
   */
  readonly proven: Uint8Array;
}

/**
 * A cached pillar of one minion, with the environments, external pillar and options for which it
 * was compiled.
 */
export interface KeptPillar extends CachedPillar {
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
  readonly lower: string;
  readonly rules: string;
}

/** Stored form of a {@link CachedPillar}. */
type StoredCached = Pick<StoredPillar, 'from' | 'pillar' | 'proven'>;

export function packCached({ madeFrom, pillar, proven }: CachedPillar): StoredCached {
  return {
    from: packDependencies(madeFrom),
    pillar,
    ...(proven === pillar ? {} : { proven }),
  };
}

export function unpackCached({ from, pillar, proven = pillar }: StoredCached): CachedPillar {
  return { madeFrom: unpackDependencies(from), pillar, proven };
}

/**
 * Packs both versions of a pillar: `pillar`, and `proven`, which does not depend on grains. If both
 * are the same object, it is packed once.
 */
export function packAnswer({
  pillar,
  proven,
}: PillarAnswer): Pick<CachedPillar, 'pillar' | 'proven'> {
  const packed = packLocal(pillar);
  return { pillar: packed, proven: proven === pillar ? packed : packLocal(proven) };
}

export function unpackAnswer({
  pillar: packed,
  proven,
}: Pick<CachedPillar, 'pillar' | 'proven'>): PillarAnswer {
  const pillar = unpack(packed);
  return { pillar, proven: proven === packed ? pillar : unpack(proven) };
}

/**
 * Limits for unpacking cached values. They are high, because the cache packed these values itself.
 */
const keptLimits: PayloadLimits = {
  maxBytes: Number.POSITIVE_INFINITY,
  maxDepth: 1000,
  maxElements: Number.POSITIVE_INFINITY,
};

function packKept({ saltenv, pillarenv, lower, rules, ...cached }: KeptPillar): StoredPillar {
  return {
    saltenv: saltenv ?? null,
    pillarenv: pillarenv ?? null,
    lower,
    rules,
    ...packCached(cached),
  };
}

function unpackKept(stored: StoredPillar): KeptPillar {
  const { saltenv, pillarenv, lower, rules, ...cached } = stored;
  return {
    saltenv: saltenv ?? undefined,
    pillarenv: pillarenv ?? undefined,
    lower,
    rules,
    ...unpackCached(cached),
  };
}

const prefix: Key = ['pillar-cache'];

export interface PersistentPillarCacheOptions {
  readonly store: Store;
  readonly seal: Auth['seal'];
  /** Whether an id has a key in any state. Entries of other ids are deleted. */
  readonly hasKey: (id: string) => boolean;
  /** Maximum size of all records, in bytes. Default: 256 MiB. */
  readonly maxBytes?: number;
  /** Maximum size of one record, in bytes. Encryption takes about 13 ms per MiB. Default: 2 MiB. */
  readonly maxRecordBytes?: number;
}

/**
 * The persistent pillar cache. Its size is limited, and the record that was written first is
 * evicted first. A record is valid only under the minion id for which it was encrypted.
 */
export class PersistentPillarCache {
  readonly #store: Store;
  readonly #seal: Auth['seal'];
  readonly #maxBytes: number;
  readonly #maxRecordBytes: number;
  /** Size of each record in bytes, by minion id, in the order of writing. */
  readonly #sizes = new Map<string, number>();
  #bytes = 0;

  private constructor({
    store,
    seal,
    maxBytes = 256 * 1024 * 1024,
    maxRecordBytes = 2 * 1024 * 1024,
  }: PersistentPillarCacheOptions) {
    this.#store = store;
    this.#seal = seal;
    this.#maxBytes = maxBytes;
    this.#maxRecordBytes = maxRecordBytes;
  }

  /**
   * Opens the cache, measures its records, and deletes the records of ids that have no key.
   * @throws StoreError
   */
  static async open(options: PersistentPillarCacheOptions): Promise<PersistentPillarCache> {
    const cache = new PersistentPillarCache(options);
    const stale: string[] = [];
    for await (const { key, value } of options.store.list(prefix)) {
      // Longer keys are those of shared results.
      if (key.length !== 2) continue;
      const id = key.at(-1) ?? '';
      if (options.hasKey(id)) cache.#note(id, value.length);
      else stale.push(id);
    }
    await cache.#write([...stale.map(deletion), ...cache.#trim()]);
    return cache;
  }

  /**
   * Deletes all records.
   * @throws StoreError
   */
  static async clear(store: Store): Promise<void> {
    await store.write([{ op: 'delete-prefix', prefix }]);
  }

  /** Size of all records in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Returns the cached pillars of a minion, or none if they cannot be read.
   * @throws StoreError
   */
  async get(id: string): Promise<readonly KeptPillar[]> {
    if (!this.#sizes.has(id)) return [];
    const entry = await this.#store.get([...prefix, id]);
    if (entry === undefined || !this.#sizes.has(id)) return [];
    return this.#read(id, entry.value);
  }

  /**
   * Replaces the cached pillars of a minion. They are durable when the promise resolves.
   * @throws StoreError
   */
  async put(id: string, pillars: readonly KeptPillar[]): Promise<void> {
    const plain = pillarsRow.encode({ id, pillars: pillars.map(packKept) });
    if (plain.length > this.#maxRecordBytes) return this.forget(id);
    const value = this.#seal.seal(plain);
    this.#note(id, value.length);
    await this.#write([{ op: 'put', key: [...prefix, id], value }, ...this.#trim()]);
  }

  /**
   * Deletes the cached pillars of a minion.
   * @throws StoreError
   */
  async forget(id: string): Promise<void> {
    if (!this.#sizes.has(id)) return;
    this.#unnote(id);
    await this.#write([deletion(id)]);
  }

  #note(id: string, bytes: number): void {
    this.#unnote(id);
    this.#sizes.set(id, bytes);
    this.#bytes += bytes;
  }

  #unnote(id: string): void {
    this.#bytes -= this.#sizes.get(id) ?? 0;
    this.#sizes.delete(id);
  }

  #trim(): Operation[] {
    const operations: Operation[] = [];
    for (const oldest of this.#sizes.keys()) {
      if (this.#bytes <= this.#maxBytes) break;
      this.#unnote(oldest);
      operations.push(deletion(oldest));
    }
    return operations;
  }

  async #write(operations: readonly Operation[]): Promise<void> {
    if (operations.length > 0) await this.#store.write(operations);
  }

  /**
   * Decrypts and reads a record. A record is ignored, and later replaced, if it belongs to another
   * id, was encrypted with another key, or has an unknown format.
   */
  #read(id: string, sealed: Uint8Array): readonly KeptPillar[] {
    try {
      const value = this.#seal.open(sealed);
      const record = pillarsRow.decode({ key: [...prefix, id], value });
      if (record.id !== id) return [];
      return record.pillars.map(unpackKept);
    } catch {
      return [];
    }
  }
}

function deletion(id: string): Operation {
  return { op: 'delete', key: [...prefix, id] };
}

/** Inputs from which a pillar is compiled, besides grains. */
export interface PillarKey {
  readonly id: string;
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
  /**
   * Digest of the external pillar data over which the data of pillar files is merged. Empty if
   * there is no such data.
   */
  readonly lower: string;
  /**
   * Digest of the program version and of the options that affect pillars. If it changes, cached
   * pillars become invalid.
   */
  readonly rules: string;
}

export interface PillarCacheOptions {
  /**
   * Files and file lists. A cached pillar is valid only if those on which it depends are unchanged.
   */
  readonly sources: PillarSources;
  /** Cache that persists across restarts of the master. Default: none. */
  readonly persistent?: PersistentPillarCache | undefined;
  /** Maximum size of the entries in memory, in bytes. Default: 256 MiB. */
  readonly maxBytes?: number;
}

/**
 * Maximum number of cached pillars of one minion. They differ in the environments, the external
 * pillar or the options.
 */
const maxPerMinion = 4;

/** Memory overhead of a minion's entry, in bytes. */
const bytesPerMinion = 400;

/**
 * Cache of compiled pillars. An entry is used while the files, lists and grains that it depends on
 * are unchanged. Entries in memory are packed, because even small ones take about a kilobyte as
 * objects. Minions without an entry in memory are looked up in the persistent cache. The size is
 * limited. The least recently used entry is evicted first.
 */
export class PillarCache {
  readonly #sources: PillarSources;
  readonly #persistent: PersistentPillarCache | undefined;
  readonly #entries: LRUCache<string, Uint8Array>;

  constructor({ sources, persistent, maxBytes = 256 * 1024 * 1024 }: PillarCacheOptions) {
    this.#sources = sources;
    this.#persistent = persistent;
    this.#entries = createBoundedMap<string, Uint8Array>(saltLimits.pillarBytes, {
      total: maxBytes,
      sizeOf: (packed) => bytesPerMinion + packed.length,
    });
  }

  /** Size of all entries in memory, in bytes. */
  get bytes(): number {
    return this.#entries.calculatedSize;
  }

  /** Returns a cached pillar that is still valid, or `undefined`. */
  async find(key: PillarKey, grains: WireMap): Promise<PillarAnswer | undefined> {
    if (!this.#entries.has(key.id)) await this.#fetch(key.id);
    const entry = this.#kept(key.id).find((it) => isFor(it, key));
    if (entry === undefined) return undefined;
    if (!entry.madeFrom.grains.agreeWith(grains)) return undefined;
    if (!(await areFilesCurrent(entry.madeFrom, this.#sources))) return undefined;
    this.#entries.get(key.id);
    return unpackAnswer(entry);
  }

  /**
   * Caches a pillar in memory at once. The promise resolves when the pillar is also in the store.
   * @throws StoreError
   */
  async keep(
    { id, ...key }: PillarKey,
    answer: PillarAnswer,
    madeFrom: CacheDependencies,
  ): Promise<void> {
    const entry: KeptPillar = { ...key, madeFrom, ...packAnswer(answer) };
    const others = this.#kept(id).filter((it) => !isFor(it, { id, ...key }));
    const entries = [entry, ...others].slice(0, maxPerMinion);
    this.#put(id, entries);
    await this.#persistent?.put(id, entries);
  }

  /** Returns the cached pillars in memory. */
  *kept(): Generator<KeptPillar, void> {
    for (const id of this.#entries.keys()) yield* this.#kept(id);
  }

  /**
   * Deletes the cached pillars of a minion in memory and in the store.
   * @throws StoreError
   */
  async forget(id: string): Promise<void> {
    this.#entries.delete(id);
    await this.#persistent?.forget(id);
  }

  async #fetch(id: string): Promise<void> {
    const entries = (await this.#persistent?.get(id)) ?? [];
    // An entry that was added while the record was read is newer, so the record is not used.
    if (entries.length > 0 && !this.#entries.has(id)) this.#put(id, entries);
  }

  #kept(id: string): readonly KeptPillar[] {
    const value = this.#entries.peek(id);
    if (value === undefined) return [];
    return pillarsRow.decode({ key: [...prefix, id], value }).pillars.map(unpackKept);
  }

  #put(id: string, entries: readonly KeptPillar[]): void {
    // Copy the bytes, because the packed form is a view of a larger buffer, which would stay in
    // memory.
    const packed = pillarsRow.encode({ id, pillars: entries.map(packKept) });
    this.#entries.set(id, new Uint8Array(packed));
  }
}

function isFor(entry: KeptPillar, { saltenv, pillarenv, lower, rules }: PillarKey): boolean {
  const isSameEnv = entry.saltenv === saltenv && entry.pillarenv === pillarenv;
  return isSameEnv && entry.lower === lower && entry.rules === rules;
}

function unpack(bytes: Uint8Array): FactMap {
  return unpackLocal(bytes, keptLimits) as FactMap; // packed from a FactMap above
}
