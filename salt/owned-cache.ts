import type { LRUCache } from 'lru-cache';
import type { Limit, LimitValues } from '#runtime';
import { createBoundedMap } from '#runtime';

/** Options of an {@link OwnedCache}. */
export interface OwnedCacheOptions<Value> {
  /** Returns the size of an entry. */
  readonly sizeOf: (value: Value, key: string) => number;
  /** Called with a value that was evicted, replaced or deleted. */
  readonly dispose?: (value: Value) => void;
}

interface Entry<Value> {
  readonly key: string;
  readonly owner: string;
  readonly value: Value;
  readonly size: number;
}

/**
 * Keys of the entries of one owner, starting with the least recently used one, and the total size
 * of these entries.
 */
interface Owner {
  readonly keys: Set<string>;
  size: number;
}

/**
 * Cache whose size is limited in total and for each owner. The owner of an entry is the one that
 * added it; all owners can read it. An entry that exceeds the limit of its owner evicts the least
 * recently used entries of this owner. An entry that exceeds the total limit evicts the least
 * recently used entries of all owners.
 */
export class OwnedCache<Value extends {}> {
  readonly #perOwner: number;
  readonly #sizeOf: OwnedCacheOptions<Value>['sizeOf'];
  readonly #entries: LRUCache<string, Entry<Value>>;
  readonly #owners = new Map<string, Owner>();

  /**
   * @param values - maximum sizes of the cached entries: of one owner (`perOwner`), and of all
   * owners (`total`). Default: those of `limit`
   */
  constructor(
    limit: Limit,
    { sizeOf, dispose }: OwnedCacheOptions<Value>,
    { perOwner = Infinity, total = Infinity }: LimitValues = limit,
  ) {
    this.#perOwner = perOwner;
    this.#sizeOf = sizeOf;
    this.#entries = createBoundedMap<string, Entry<Value>>(limit, {
      total,
      sizeOf: ({ size }) => size,
      dispose: (entry) => {
        this.#forget(entry);
        dispose?.(entry.value);
      },
    });
  }

  /** Returns the value of an entry, and makes it the most recently used one. */
  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) return undefined;
    const keys = this.#owners.get(entry.owner)?.keys;
    if (keys?.delete(key) === true) keys.add(key);
    return entry.value;
  }

  /**
   * Adds or replaces the value of a key.
   * @returns `false` if this value alone exceeds a size limit. The value was then not added, a
   * previous value of the key was removed, and the caller must not keep the value elsewhere
   */
  set(owner: string, key: string, value: Value): boolean {
    const size = this.#sizeOf(value, key);
    this.#entries.delete(key);
    if (size > this.#perOwner) return false;
    this.#entries.set(key, { key, owner, value, size });
    if (!this.#entries.has(key)) return false;
    const own = this.#owners.get(owner) ?? { keys: new Set<string>(), size: 0 };
    this.#owners.set(owner, own);
    own.keys.add(key);
    own.size += size;
    for (const oldest of own.keys) {
      if (own.size <= this.#perOwner) break;
      this.#entries.delete(oldest);
    }
    return true;
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }

  /** Returns the keys of all entries, starting with the least recently used one. */
  rkeys(): Generator<string, void, unknown> {
    return this.#entries.rkeys();
  }

  #forget({ key, owner, size }: Entry<Value>): void {
    const own = this.#owners.get(owner);
    if (own?.keys.delete(key) !== true) return;
    own.size -= size;
    if (own.keys.size === 0) this.#owners.delete(owner);
  }
}
