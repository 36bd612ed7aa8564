import Type from 'typebox';
import type { Auth } from '#master';
import { unpackLocal } from '#minion-protocol';
import { defineRow, type Key, type Operation, type Store } from '#store';
import {
  type KeptPillar,
  keptLimits,
  packKept,
  StoredPillar,
  unpackKept,
} from './pillar-records.ts';

/**
 * Schema of the encrypted rows `pillar-cache/<id>` in the store, and of the packed entries in
 * memory.
 */
export const pillarsRow = defineRow({
  name: 'cached pillar',
  schema: Type.Object({ id: Type.String(), pillars: Type.Array(StoredPillar) }),
  unversioned: (bytes) => unpackLocal(bytes, keptLimits),
});

export const prefix: Key = ['pillar-cache'];

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
