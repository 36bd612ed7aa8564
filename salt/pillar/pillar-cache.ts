/**
 * The pillar cache, in memory and in the store: one entry a minion, with the dependencies by which it
 * is valid.
 */

import type { Seal } from '#master';
import {
  type FactMap,
  isWireMap,
  type PayloadLimits,
  packLocal,
  unpackLocal,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import type { Key, Operation, Store } from '#store';
import { GrainReads } from '../render/grains.ts';
import type { PillarAnswer } from '../render/pillar-data.ts';
import type { CacheDependencies, PillarSources } from '../render/pillar-sources.ts';

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

/** As it is stored; {@link unpackDependencies} reads it. */
function packDependencies({ files, lists, grains }: CacheDependencies): WireMap {
  return {
    files: files.map(({ saltenv, path, digest }) => [saltenv, path, digest ?? null]),
    lists: lists.map(({ saltenv, digest }) => [saltenv, digest]),
    grains: Array.from(grains.values, ([name, value]) => [name, value]),
    whole: grains.whole ?? null,
  };
}

/** @returns `undefined` for what is none */
function unpackDependencies(value: WireValue | undefined): CacheDependencies | undefined {
  if (!isWireMap(value)) return undefined;
  const grains = new GrainReads();
  for (const [name, read] of tuples(value.grains)) {
    if (typeof name === 'string') grains.values.set(name, bytesOf(read) ?? null);
  }
  grains.whole = bytesOf(value.whole);
  return {
    files: tuples(value.files).map(([saltenv, path, digest]) => ({
      saltenv: String(saltenv),
      path: String(path),
      digest: typeof digest === 'string' ? digest : undefined,
    })),
    lists: tuples(value.lists).map(([saltenv, digest]) => ({
      saltenv: String(saltenv),
      digest: String(digest),
    })),
    grains,
  };
}

function tuples(value: WireValue | undefined): (readonly WireValue[])[] {
  return Array.isArray(value) ? value.filter((item) => Array.isArray(item)) : [];
}

function bytesOf(value: WireValue | undefined): Buffer | undefined {
  return value instanceof Uint8Array ? Buffer.from(value) : undefined;
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

/** As it is stored; {@link unpackKept} reads it. */
function packKept({
  saltenv,
  pillarenv,
  lower,
  rules,
  madeFrom,
  pillar,
  proven,
}: KeptPillar): WireMap {
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

/** @returns `undefined` for what is none */
function unpackKept(value: WireValue): KeptPillar | undefined {
  if (!isWireMap(value)) return undefined;
  const { saltenv, pillarenv, lower, rules, from, pillar, proven = pillar } = value;
  const madeFrom = unpackDependencies(from);
  if (madeFrom === undefined || typeof lower !== 'string' || typeof rules !== 'string') {
    return undefined;
  }
  if (!(pillar instanceof Uint8Array) || !(proven instanceof Uint8Array)) return undefined;
  return {
    saltenv: typeof saltenv === 'string' ? saltenv : undefined,
    pillarenv: typeof pillarenv === 'string' ? pillarenv : undefined,
    lower,
    rules,
    madeFrom,
    pillar,
    proven,
  };
}

const prefix: Key = ['pillar-cache'];

export interface PersistentPillarCacheOptions {
  readonly store: Store;
  readonly seal: Seal;
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
  readonly #seal: Seal;
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
    const plain = packLocal({ id, pillars: pillars.map(packKept) });
    if (plain.length > this.#maxRecordBytes) return this.forget(id);
    // protection: unsealed-pillars-1
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
      // protection: unsealed-pillars-2
      const record = unpackLocal(this.#seal.open(sealed), keptLimits);
      // protection: pillar-of-another-record
      if (!isWireMap(record) || record.id !== id || !Array.isArray(record.pillars)) return [];
      return record.pillars.map(unpackKept).filter((it) => it !== undefined);
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
  readonly #maxBytes: number;
  readonly #entries = new Map<string, Uint8Array>();
  #bytes = 0;

  constructor({ sources, persistent, maxBytes = 256 * 1024 * 1024 }: PillarCacheOptions) {
    this.#sources = sources;
    this.#persistent = persistent;
    this.#maxBytes = maxBytes;
  }

  /** Bytes of all that is in memory. */
  get bytes(): number {
    return this.#bytes;
  }

  /** A pillar that would be the same if it were made now. */
  async find(key: PillarKey, grains: WireMap): Promise<PillarAnswer | undefined> {
    if (!this.#entries.has(key.id)) await this.#fetch(key.id);
    const entry = this.#kept(key.id).find((it) => isFor(it, key));
    if (entry === undefined) return undefined;
    if (!(await isCurrent(entry.madeFrom, this.#sources, grains))) return undefined;
    this.#use(key.id);
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
    this.#drop(id);
    await this.#persistent?.forget(id);
  }

  async #fetch(id: string): Promise<void> {
    const entries = (await this.#persistent?.get(id)) ?? [];
    // What was made meanwhile is newer.
    if (entries.length > 0 && !this.#entries.has(id)) this.#put(id, entries);
  }

  #kept(id: string): readonly KeptPillar[] {
    const packed = this.#entries.get(id);
    if (packed === undefined) return [];
    const entries = unpackLocal(packed, keptLimits);
    return Array.isArray(entries) ? entries.map(unpackKept).filter((it) => it !== undefined) : [];
  }

  #put(id: string, entries: readonly KeptPillar[]): void {
    this.#drop(id);
    // A copy: the packed form is a part of a larger buffer.
    this.#entries.set(id, new Uint8Array(packLocal(entries.map(packKept))));
    this.#bytes += this.#bytesOf(id);
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#maxBytes) return;
      this.#drop(oldest);
    }
  }

  #drop(id: string): void {
    this.#bytes -= this.#bytesOf(id);
    this.#entries.delete(id);
  }

  #use(id: string): void {
    const packed = this.#entries.get(id);
    if (packed === undefined) return;
    this.#entries.delete(id);
    this.#entries.set(id, packed);
  }

  #bytesOf(id: string): number {
    const packed = this.#entries.get(id);
    return packed === undefined ? 0 : bytesPerMinion + packed.length;
  }
}

function isFor(entry: KeptPillar, { saltenv, pillarenv, lower, rules }: PillarKey): boolean {
  const isSameEnv = entry.saltenv === saltenv && entry.pillarenv === pillarenv;
  return isSameEnv && entry.lower === lower && entry.rules === rules;
}

function unpack(bytes: Uint8Array): FactMap {
  return unpackLocal(bytes, keptLimits) as FactMap; // it was packed as one, above
}
