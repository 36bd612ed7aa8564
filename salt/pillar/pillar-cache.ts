/**
 * The pillar cache, in memory and in the store. Each minion has one entry. It contains the minion's
 * pillars and their dependencies: files, lists and grains.
 */

import type { LRUCache } from 'lru-cache';
import type { WireMap } from '#minion-protocol';
import { createBoundedMap } from '#runtime';
import { saltLimits } from '../limits.ts';
import type { PillarAnswer } from '../render/pillar-source.ts';
import type { PillarSources } from '../render/pillar-sources.ts';
import type { CacheDependencies } from '../render/reads.ts';
import { type PersistentPillarCache, pillarsRow, prefix } from './persistent-pillars.ts';
import {
  type KeptPillar,
  packAnswer,
  packKept,
  unpackAnswer,
  unpackKept,
} from './pillar-records.ts';

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
