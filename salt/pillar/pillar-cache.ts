/**
 * The pillar cache, in memory and in the store: one entry a minion, with the dependencies by which it
 * is valid.
 */

import { LRUCache } from 'lru-cache';
import Type from 'typebox';
import type { Auth } from '#master';
import {
  type FactMap,
  type PayloadLimits,
  packLocal,
  unpackExact,
  unpackLocal,
  type WireMap,
} from '#minion-protocol';
import { Bytes, defineRow, type Key, type Operation, type Store } from '#store';
import { GrainReads } from '../render/grains.ts';
import type { PillarAnswer } from '../render/pillar-source.ts';
import type { PillarSources } from '../render/pillar-sources.ts';
import type { CacheDependencies } from '../render/reads.ts';

/** Whether a pillar made now, with these grains, would be made from the same. */
async function isCurrent(
  { files, lists, grains: read }: CacheDependencies,
  sources: PillarSources,
  grains: WireMap,
): Promise<boolean> {
  if (!read.agreeWith(grains)) return false;
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

/** A pillar in a row, with what it was made from. */
const StoredPillar = Type.Object({
  saltenv: Type.Union([Type.String(), Type.Null()]),
  pillarenv: Type.Union([Type.String(), Type.Null()]),
  lower: Type.String(),
  rules: Type.String(),
  from: Type.Object({
    /** Environment, path and digest; `null`: there was no such file. */
    files: Type.Array(
      Type.Tuple([Type.String(), Type.String(), Type.Union([Type.String(), Type.Null()])]),
    ),
    /** Environment and digest. */
    lists: Type.Array(Type.Tuple([Type.String(), Type.String()])),
    /** Name and value; `null`: there was no such grain. */
    grains: Type.Array(Type.Tuple([Type.String(), Type.Union([Bytes, Type.Null()])])),
    whole: Type.Union([Bytes, Type.Null()]),
  }),
  pillar: Bytes,
  /** Absent: the same as `pillar`. */
  proven: Type.Optional(Bytes),
});
type StoredPillar = Type.Static<typeof StoredPillar>;

/** Rows `pillar-cache/<id>`, sealed; and the entries of the cache in memory. */
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

/** A pillar with what it is good for. */
export interface KeptPillar {
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
  readonly lower: string;
  readonly rules: string;
  readonly madeFrom: CacheDependencies;
  /** Packed, because as objects they take some ten times the room. */
  readonly pillar: Uint8Array;
  /** The same object where it is the same. */
  readonly proven: Uint8Array;
}

/** What was packed here is read again, whatever a peer may send. */
const keptLimits: PayloadLimits = {
  maxBytes: Number.POSITIVE_INFINITY,
  maxDepth: 1000,
  maxElements: Number.POSITIVE_INFINITY,
};

function packKept({
  saltenv,
  pillarenv,
  lower,
  rules,
  madeFrom,
  pillar,
  proven,
}: KeptPillar): StoredPillar {
  return {
    saltenv: saltenv ?? null,
    pillarenv: pillarenv ?? null,
    lower,
    rules,
    from: packDependencies(madeFrom),
    pillar,
    ...(proven === pillar ? {} : { proven }),
  };
}

function unpackKept(stored: StoredPillar): KeptPillar {
  const { saltenv, pillarenv, lower, rules, from, pillar, proven = pillar } = stored;
  return {
    saltenv: saltenv ?? undefined,
    pillarenv: pillarenv ?? undefined,
    lower,
    rules,
    madeFrom: unpackDependencies(from),
    pillar,
    proven,
  };
}

const prefix: Key = ['pillar-cache'];

export interface PersistentPillarCacheOptions {
  readonly store: Store;
  readonly seal: Auth['seal'];
  /** Whether an id has a key in any state; what there is of others is forgotten. */
  readonly hasKey: (id: string) => boolean;
  /** Of all records together. Default 256 MiB. */
  readonly maxBytes?: number;
  /** Of one; sealing takes some 13 ms for a MiB. Default 2 MiB. */
  readonly maxRecordBytes?: number;
}

/**
 * The persistent pillar cache. Bounded in bytes; what was put there longest ago goes first. A record opens under the
 * id alone that it was sealed for.
 */
export class PersistentPillarCache {
  readonly #store: Store;
  readonly #seal: Auth['seal'];
  readonly #maxBytes: number;
  readonly #maxRecordBytes: number;
  /** Bytes by id, those put there longest ago first. */
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

  /** Counts what is there, and forgets what belongs to no key any more. @throws StoreError */
  static async open(options: PersistentPillarCacheOptions): Promise<PersistentPillarCache> {
    const cache = new PersistentPillarCache(options);
    const stale: string[] = [];
    for await (const { key, value } of options.store.list(prefix)) {
      const id = key.at(-1) ?? '';
      if (options.hasKey(id)) cache.#note(id, value.length);
      else stale.push(id);
    }
    await cache.#write([...stale.map(deletion), ...cache.#trim()]);
    return cache;
  }

  /** Forgets all, for a master that is to keep nothing. @throws StoreError */
  static async clear(store: Store): Promise<void> {
    await store.write([{ op: 'delete-prefix', prefix }]);
  }

  /** Bytes of all records. */
  get bytes(): number {
    return this.#bytes;
  }

  /** What is kept of a minion; nothing where it cannot be read. @throws StoreError */
  async get(id: string): Promise<readonly KeptPillar[]> {
    if (!this.#sizes.has(id)) return [];
    const entry = await this.#store.get([...prefix, id]);
    if (entry === undefined || !this.#sizes.has(id)) return [];
    return this.#read(id, entry.value);
  }

  /** Keeps these in place of what was there; on disk when it resolves. @throws StoreError */
  async put(id: string, pillars: readonly KeptPillar[]): Promise<void> {
    const plain = pillarsRow.encode({ id, pillars: pillars.map(packKept) });
    if (plain.length > this.#maxRecordBytes) return this.forget(id);
    const value = this.#seal.seal(plain);
    this.#note(id, value.length);
    await this.#write([{ op: 'put', key: [...prefix, id], value }, ...this.#trim()]);
  }

  /** Forgets a minion. @throws StoreError */
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

  /** Another seal key, another id, another form: all the same, it is made again. */
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

/** What a pillar was made for, besides the grains. */
export interface PillarKey {
  readonly id: string;
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
  /** Tells apart what external pillar gave before; empty: nothing. */
  readonly lower: string;
  /** Tells apart the options, and the program, that it was made by. */
  readonly rules: string;
}

export interface PillarCacheOptions {
  /** What a pillar was made from is looked up in them. */
  readonly sources: PillarSources;
  /** Keeps pillars when the master ends. Default: none are kept. */
  readonly persistent?: PersistentPillarCache | undefined;
  /** Of what is in memory. Default 256 MiB. */
  readonly maxBytes?: number;
}

/** Environments of one minion that are kept. */
const maxPerMinion = 4;

/** What a minion's entry takes besides its bytes. */
const bytesPerMinion = 400;

/**
 * Pillars that were made, each good as long as what it was made from is the same. In memory, packed
 * with all that is known of them, because as objects even empty ones take a kilobyte each. Minions
 * that have no entry in memory are looked up in the persistent cache. Bounded in bytes; the one that
 * was not asked for longest goes first.
 */
export class PillarCache {
  readonly #sources: PillarSources;
  readonly #persistent: PersistentPillarCache | undefined;
  readonly #entries: LRUCache<string, Uint8Array>;

  constructor({ sources, persistent, maxBytes = 256 * 1024 * 1024 }: PillarCacheOptions) {
    this.#sources = sources;
    this.#persistent = persistent;
    this.#entries = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: (packed) => bytesPerMinion + packed.length,
    });
  }

  /** Bytes of all that is in memory. */
  get bytes(): number {
    return this.#entries.calculatedSize;
  }

  /** A pillar that would be the same if it were made now. */
  async find(key: PillarKey, grains: WireMap): Promise<PillarAnswer | undefined> {
    if (!this.#entries.has(key.id)) await this.#fetch(key.id);
    const entry = this.#kept(key.id).find((it) => isFor(it, key));
    if (entry === undefined) return undefined;
    if (!(await isCurrent(entry.madeFrom, this.#sources, grains))) return undefined;
    this.#entries.get(key.id);
    const pillar = unpack(entry.pillar);
    return { pillar, proven: entry.proven === entry.pillar ? pillar : unpack(entry.proven) };
  }

  /** In memory at once; resolves when it is in the store. @throws StoreError */
  async keep(
    { id, ...key }: PillarKey,
    { pillar, proven }: PillarAnswer,
    madeFrom: CacheDependencies,
  ): Promise<void> {
    const packed = packLocal(pillar);
    const entry: KeptPillar = {
      ...key,
      madeFrom,
      pillar: packed,
      proven: proven === pillar ? packed : packLocal(proven),
    };
    const others = this.#kept(id).filter((it) => !isFor(it, { id, ...key }));
    const entries = [entry, ...others].slice(0, maxPerMinion);
    this.#put(id, entries);
    await this.#persistent?.put(id, entries);
  }

  /** Forgets a minion, in the store as well. @throws StoreError */
  async forget(id: string): Promise<void> {
    this.#entries.delete(id);
    await this.#persistent?.forget(id);
  }

  async #fetch(id: string): Promise<void> {
    const entries = (await this.#persistent?.get(id)) ?? [];
    // What was made meanwhile is newer.
    if (entries.length > 0 && !this.#entries.has(id)) this.#put(id, entries);
  }

  #kept(id: string): readonly KeptPillar[] {
    const value = this.#entries.peek(id);
    if (value === undefined) return [];
    return pillarsRow.decode({ key: [...prefix, id], value }).pillars.map(unpackKept);
  }

  #put(id: string, entries: readonly KeptPillar[]): void {
    // A copy: the packed form is a part of a larger buffer.
    const packed = pillarsRow.encode({ id, pillars: entries.map(packKept) });
    this.#entries.set(id, new Uint8Array(packed));
  }
}

function isFor(entry: KeptPillar, { saltenv, pillarenv, lower, rules }: PillarKey): boolean {
  const isSameEnv = entry.saltenv === saltenv && entry.pillarenv === pillarenv;
  return isSameEnv && entry.lower === lower && entry.rules === rules;
}

function unpack(bytes: Uint8Array): FactMap {
  return unpackExact(bytes, keptLimits) as FactMap; // it was packed as one, above
}
