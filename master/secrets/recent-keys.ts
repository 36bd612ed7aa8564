import { type CrypticleKey, parseKeyString } from '../../minion-protocol/index.ts';

/** Some 3 KB each. */
const maxKept = 2048;
/** Milliseconds without use after which one makes room. */
const idleMs = 60_000;
/** How exactly that is known: putting a key in its place is not worth it at each use. */
const preciseMs = 1000;

interface Kept {
  readonly key: CrypticleKey;
  usedAt: number;
}

/**
 * Keys of those who were heard lately, ready: making one ready takes longer than opening a request.
 * Where more minions speak than are kept, nobody takes the place of one that still speaks: what is
 * kept for a moment alone is memory that only a full collection gives back.
 */
export class RecentKeys {
  /** The one that was used last is the last. */
  readonly #kept = new Map<string, Kept>();
  readonly #now: () => number;

  /** @param now milliseconds of a clock that only goes forward */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** The minion's key with this text. */
  ready(id: string, text: string): CrypticleKey {
    const now = this.#now();
    const kept = this.#kept.get(id);
    if (kept?.key.text === text) {
      if (now - kept.usedAt < preciseMs) return kept.key;
      kept.usedAt = now;
      this.#kept.delete(id);
      this.#kept.set(id, kept);
      return kept.key;
    }
    const key = parseKeyString(text);
    this.#kept.delete(id);
    if (this.#makeRoom(now)) this.#kept.set(id, { key, usedAt: now });
    return key;
  }

  forget(id: string): void {
    this.#kept.delete(id);
  }

  /** @returns whether there is room now */
  #makeRoom(now: number): boolean {
    if (this.#kept.size < maxKept) return true;
    const [longestUnused] = this.#kept;
    if (longestUnused === undefined || now - longestUnused[1].usedAt < idleMs) return false;
    return this.#kept.delete(longestUnused[0]);
  }
}
