import { type FactMap, packLocal, unpackLocal, type WireMap } from '../../minion-protocol/index.ts';
import type { PillarAnswer } from './answer.ts';
import type { Reads } from './reads.ts';

/** What a pillar was made for, besides the grains. */
export interface PillarKey {
  readonly id: string;
  readonly saltenv: string | undefined;
  readonly pillarenv: string | undefined;
  /** Tells apart what external pillar gave before; empty: nothing. */
  readonly lower: string;
}

interface Entry extends PillarKey {
  readonly reads: Reads;
  /** Packed, because as objects they take some ten times the room. */
  readonly pillar: Uint8Array;
  /** The same object where it is the same. */
  readonly proven: Uint8Array;
}

/** Environments of one minion that are kept. */
const maxPerMinion = 4;

/**
 * Pillars that were made, each good as long as what it was made from is the same. In memory only:
 * nothing of it is on a disk. Bounded in bytes; the one that was not asked for longest goes first.
 */
export class PillarCache {
  readonly #maxBytes: number;
  readonly #entries = new Map<string, readonly Entry[]>();
  #bytes = 0;

  /** @param maxBytes default 256 MiB */
  constructor(maxBytes: number = 256 * 1024 * 1024) {
    this.#maxBytes = maxBytes;
  }

  /** Bytes of all that is kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /** A pillar that would be the same if it were made now. */
  async find(key: PillarKey, grains: WireMap): Promise<PillarAnswer | undefined> {
    const entry = this.#entries.get(key.id)?.find((it) => isFor(it, key));
    if (entry === undefined || !(await entry.reads.areCurrent(grains))) return undefined;
    this.#use(key.id);
    const pillar = unpack(entry.pillar);
    return { pillar, proven: entry.proven === entry.pillar ? pillar : unpack(entry.proven) };
  }

  keep(key: PillarKey, { pillar, proven }: PillarAnswer, reads: Reads): void {
    const packed = packLocal(pillar);
    const entry: Entry = {
      ...key,
      reads,
      pillar: packed,
      proven: proven === pillar ? packed : packLocal(proven),
    };
    const others = (this.#entries.get(key.id) ?? []).filter((it) => !isFor(it, key));
    this.#forget(key.id);
    this.#entries.set(key.id, [entry, ...others].slice(0, maxPerMinion));
    this.#bytes += this.#bytesOf(key.id);
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#maxBytes) return;
      this.#forget(oldest);
    }
  }

  /** Forgets all. */
  clear(): void {
    this.#entries.clear();
    this.#bytes = 0;
  }

  #forget(id: string): void {
    this.#bytes -= this.#bytesOf(id);
    this.#entries.delete(id);
  }

  #use(id: string): void {
    const entries = this.#entries.get(id);
    if (entries === undefined) return;
    this.#entries.delete(id);
    this.#entries.set(id, entries);
  }

  #bytesOf(id: string): number {
    return (this.#entries.get(id) ?? []).reduce((sum, { pillar, proven }) => {
      return sum + pillar.length + (proven === pillar ? 0 : proven.length);
    }, 0);
  }
}

function isFor(entry: Entry, { id, saltenv, pillarenv, lower }: PillarKey): boolean {
  const isSameEnv = entry.saltenv === saltenv && entry.pillarenv === pillarenv;
  return entry.id === id && isSameEnv && entry.lower === lower;
}

function unpack(bytes: Uint8Array): FactMap {
  return unpackLocal(bytes) as FactMap; // it was packed as one, above
}
