import { type FactMap, packLocal, unpackLocal, type WireMap } from '../../minion-protocol/index.ts';
import type { PillarAnswer } from './answer.ts';
import { type KeptPillar, keptLimits, packKept, unpackKept } from './kept-pillar.ts';
import { isCurrent, type MadeFrom } from './made-from.ts';
import type { PillarShelf } from './shelf.ts';
import type { PillarSources } from './sources.ts';

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

/** What {@link PillarCache} needs. */
export interface PillarCacheOptions {
  /** What a pillar was made from is looked up in them. */
  readonly sources: PillarSources;
  /** Where pillars outlive the master. Default: nowhere. */
  readonly shelf?: PillarShelf | undefined;
  /** Of what is in memory. Default 256 MiB. */
  readonly maxBytes?: number;
}

/** Environments of one minion that are kept. */
const maxPerMinion = 4;
/** What a minion's entry takes besides its bytes. */
const bytesPerMinion = 400;

/**
 * Pillars that were made, each good as long as what it was made from is the same. In memory, packed
 * with all that is known of them, because as objects even empty ones take a kilobyte each; with a
 * shelf behind it that is asked where a minion has nothing there. Bounded in bytes; the one that
 * was not asked for longest goes first.
 */
export class PillarCache {
  readonly #sources: PillarSources;
  readonly #shelf: PillarShelf | undefined;
  readonly #maxBytes: number;
  readonly #entries = new Map<string, Uint8Array>();
  #bytes = 0;

  constructor({ sources, shelf, maxBytes = 256 * 1024 * 1024 }: PillarCacheOptions) {
    this.#sources = sources;
    this.#shelf = shelf;
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

  /** In memory at once; resolves when it is on the shelf. @throws StoreError */
  async keep(
    { id, ...key }: PillarKey,
    { pillar, proven }: PillarAnswer,
    madeFrom: MadeFrom,
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
    await this.#shelf?.put(id, entries);
  }

  /** Forgets a minion, on the shelf as well. @throws StoreError */
  async forget(id: string): Promise<void> {
    this.#drop(id);
    await this.#shelf?.forget(id);
  }

  async #fetch(id: string): Promise<void> {
    const entries = (await this.#shelf?.get(id)) ?? [];
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
