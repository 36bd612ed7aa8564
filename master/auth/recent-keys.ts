import { type CrypticleKey, parseKeyString } from '#minion-protocol';

/** Maximum number of prepared session keys in the cache. Each takes about 3 KB. */
const maxKept = 2048;

/** Time without use after which a key may be evicted, in milliseconds. */
const idleMs = 60_000;

/**
 * Minimum time between two recorded uses of the same key, in milliseconds. Uses in between are not
 * recorded. This saves time, because recording a use changes the order of the cache.
 */
const preciseMs = 1000;

interface Kept {
  readonly key: CrypticleKey;
  usedAt: number;
}

/**
 * Session keys of recently active minions, in the prepared form that decryption needs. Preparing a
 * key takes longer than decrypting a request. If the cache is full, it evicts only keys that have
 * not been used for a minute. If all keys were used within the last minute, a further key is not
 * cached: frequently replaced entries would occupy memory that only a full garbage collection
 * frees.
 */
export class RecentKeys {
  /** Cached keys. The most recently used key is last. */
  readonly #kept = new Map<string, Kept>();
  readonly #now: () => number;

  /** @param now - returns the time of a monotonic clock, in milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Returns the session key of a minion in prepared form. If the cache does not contain a key with
   * this text for the minion, prepares the key from the text.
   */
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

  /**
   * Evicts an idle key if necessary.
   * @returns whether the cache has space for a key
   */
  #makeRoom(now: number): boolean {
    if (this.#kept.size < maxKept) return true;
    const [longestUnused] = this.#kept;
    if (longestUnused === undefined || now - longestUnused[1].usedAt < idleMs) return false;
    return this.#kept.delete(longestUnused[0]);
  }
}
