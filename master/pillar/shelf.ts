/** Pillars that outlive the master: sealed in the store, one record a minion. */
import { isWireMap, packLocal, unpackLocal } from '../../minion-protocol/index.ts';
import type { Key, Operation, Store } from '../../store/index.ts';
import type { Seal } from '../secrets/seal.ts';
import { type KeptPillar, keptLimits, packKept, unpackKept } from './kept-pillar.ts';

const prefix: Key = ['pillar-cache'];

/** What {@link PillarShelf} needs. */
export interface PillarShelfOptions {
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
 * See above. Bounded in bytes; what was put there longest ago goes first. A record opens under the
 * id alone that it was sealed for.
 */
export class PillarShelf {
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
  }: PillarShelfOptions) {
    this.#store = store;
    this.#seal = seal;
    this.#maxBytes = maxBytes;
    this.#maxRecordBytes = maxRecordBytes;
  }

  /** Counts what is there, and forgets what belongs to no key any more. @throws StoreError */
  static async open(options: PillarShelfOptions): Promise<PillarShelf> {
    const shelf = new PillarShelf(options);
    const stale: string[] = [];
    for await (const { key, value } of options.store.list(prefix)) {
      const id = key.at(-1) ?? '';
      if (options.hasKey(id)) shelf.#note(id, value.length);
      else stale.push(id);
    }
    await shelf.#write([...stale.map(deletion), ...shelf.#trim()]);
    return shelf;
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
