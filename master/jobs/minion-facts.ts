import { isDeepStrictEqual } from 'node:util';
import type { LRUCache } from 'lru-cache';
import Type from 'typebox';
import {
  type FactMap,
  type FactSource,
  isWireMap,
  type MinionFacts,
  packLocal,
  unpackLocal,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { createBoundedMap } from '#runtime';
import {
  Bytes,
  defineRow,
  type Entry,
  type Key,
  type Operation,
  type Store,
  Texts,
  writeInParts,
} from '#store';
import type { Seal } from '../auth/index.ts';
import type { Cluster } from '../context/index.ts';
import { jobLimits } from './limits.ts';

const endBytes = 4;
/**
 * Maximum length of a list of names that minions share, as JSON, in characters. Longer lists are
 * not shared.
 */
const maxListLength = 8192;

/**
 * Names of grains and of pillar keys that all minions share, to save memory: each name is in memory
 * only once. The number of shared names is limited, because minions can send any names.
 */
export class SharedNames {
  readonly #names: LRUCache<string, string>;
  readonly #lists: LRUCache<string, readonly string[]>;

  /**
   * Creates the tables that store each name, and each list of names, once for all minions. Minions
   * of the same kind usually have the same list of names.
   * @param names - maximum number of shared names. Default: the limit `sharedNames`
   * @param lists - maximum number of shared lists. Default: the limit `sharedNameLists`
   */
  constructor(names: { readonly total?: number } = {}, lists: { readonly total?: number } = {}) {
    this.#names = createBoundedMap(jobLimits.sharedNames, names);
    this.#lists = createBoundedMap(jobLimits.sharedNameLists, lists);
  }

  /** Number of names that are stored once for all minions. */
  get size(): number {
    return this.#names.size;
  }

  share(name: string): string {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    this.#names.set(name, name);
    return name;
  }

  /**
   * Returns a list with exactly these names in this order. All minions with the same names in the
   * same order share one list.
   */
  shareAll(names: readonly string[]): readonly string[] {
    const text = JSON.stringify(names);
    const known = this.#lists.get(text);
    if (known !== undefined) return known;
    const list = names.map((name) => this.share(name));
    if (text.length <= maxListLength) this.#lists.set(text, list);
    return list;
  }
}

/**
 * Codec of the grains, or of the pillar, inside a `minion-data` row. It contains the names and the
 * packed values.
 */
const packedFactsRow = defineRow({
  name: 'facts',
  schema: Type.Object({ names: Texts, values: Type.Array(Bytes) }),
  unversioned: (bytes) => {
    const list = unpackLocal(bytes);
    return Array.isArray(list) ? { names: list[0], values: list[1] } : undefined;
  },
});

/** Codec of the rows `minion-data/<id>`. */
const factsRow = defineRow({
  name: 'minion data',
  schema: Type.Object({
    grains: Type.Optional(Bytes),
    /** Pillar, encrypted. */
    pillar: Type.Optional(Bytes),
    /**
     * Pillar compiled without the grains that the minion reports, because the minion could report
     * false ones. Encrypted. Absent if it equals `pillar`.
     */
    proven: Type.Optional(Bytes),
  }),
  unversioned: (bytes) => {
    const row = unpackLocal(bytes);
    if (!isWireMap(row)) return undefined;
    return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null));
  },
});

/**
 * Grains or pillar of one minion in memory. Values stay in packed form, and are unpacked only when
 * a target uses them. As objects they would take about ten times as much memory.
 */
export class PackedFacts implements FactSource {
  readonly #names: readonly string[];
  /** End offsets of the values, four bytes each, followed by the values. */
  readonly #bytes: Buffer;

  private constructor(names: readonly string[], values: readonly Uint8Array[]) {
    this.#names = names;
    const heads = values.length * endBytes;
    const size = values.reduce((sum, value) => sum + value.length, heads);
    this.#bytes = Buffer.allocUnsafeSlow(size);
    let end = heads;
    for (const [index, value] of values.entries()) {
      this.#bytes.set(value, end);
      end += value.length;
      this.#bytes.writeUInt32LE(end, index * endBytes);
    }
  }

  static from(map: FactMap, shared: SharedNames): PackedFacts {
    const entries: [WireValue, WireValue][] = map instanceof Map ? [...map] : Object.entries(map);
    return new PackedFacts(
      shared.shareAll(entries.map(([key]) => String(key))),
      entries.map(([, value]) => packLocal(value)),
    );
  }

  /**
   * Decodes grains or pillar that {@link PackedFacts.pack} encoded.
   * @param shared - names of grains and pillar keys; the master keeps each name in memory only once
   * for all minions
   * @throws StoreError ERR_STORE_CORRUPT
   */
  static unpack(entry: Pick<Entry, 'key' | 'value'>, shared: SharedNames): PackedFacts {
    const { names, values } = packedFactsRow.decode(entry);
    return new PackedFacts(shared.shareAll(names), values);
  }

  /** Encodes the grains or pillar for the store. {@link PackedFacts.unpack} decodes the result. */
  pack(): Uint8Array {
    return packedFactsRow.encode({
      names: this.#names,
      values: this.#names.map((_, index) => this.#slice(index)),
    });
  }

  /** Total size of the packed grains or pillar values, in bytes. */
  get size(): number {
    return this.#bytes.length - this.#names.length * endBytes;
  }

  get(key: string): WireValue | undefined {
    const index = this.#names.indexOf(key);
    return index === -1 ? undefined : unpackLocal(this.#slice(index));
  }

  whole(): WireMap {
    const map: WireMap = Object.create(null);
    for (const [index, name] of this.#names.entries()) map[name] = unpackLocal(this.#slice(index));
    return map;
  }

  isSame(other: PackedFacts): boolean {
    return (
      (this.#names === other.#names || isDeepStrictEqual(this.#names, other.#names)) &&
      Buffer.compare(this.#bytes, other.#bytes) === 0
    );
  }

  #slice(index: number): Uint8Array {
    const start = index === 0 ? this.#names.length * endBytes : this.#endOf(index - 1);
    return this.#bytes.subarray(start, this.#endOf(index));
  }

  #endOf(index: number): number {
    return this.#bytes.readUInt32LE(index * endBytes);
  }
}

const prefix: Key = ['minion-data'];

const nothingKnown: MinionFacts = { grains: undefined, pillar: undefined };

export interface KnownFactsOptions {
  readonly store: Store;
  readonly seal: Seal;
  /** `minion_data_cache`: whether grains and pillar are stored. */
  readonly isOn: boolean;
  /**
   * `grains_bytes`: maximum size of a minion's grains, and of its pillar, in bytes. 0 means
   * unlimited.
   */
  readonly maxBytes: number;
  /** Returns whether an id has a key in any state. Grains and pillar of other ids are deleted. */
  readonly hasKey: (id: string) => boolean;
  /**
   * Cluster of this master. Its members share the stored grains and pillar. Default: the master has
   * no cluster.
   */
  readonly cluster?: Pick<Cluster, 'follow'> | undefined;
}

/** Grains that a minion has sent, and the pillar that it has received. */
export interface FactsOfMinion {
  readonly id: string;
  readonly grains: FactMap;
  readonly pillar: FactMap;
  /**
   * Pillar that the minion would have received if the master did not know its grains. Rights may
   * depend on it. Default: the same as `pillar`.
   */
  readonly proven?: FactMap;
}

/**
 * The minion data cache: the grains that each minion sent last, and the pillar that it received
 * last [WIRE 9.3]. Pillar is encrypted in the store. Grains are unverified claims of the minion.
 * They determine which minions a job waits for, and must not grant any rights [THREATS M-09].
 */
export class KnownFacts {
  readonly #options: KnownFactsOptions;
  readonly #names = new SharedNames();
  readonly #facts = new Map<string, Known>();

  private constructor(options: KnownFactsOptions) {
    this.#options = options;
  }

  /**
   * Opens the stored grains and pillar.
   * @throws StoreError ERR_STORE_CORRUPT, MasterError ERR_SEAL
   */
  static async open(options: KnownFactsOptions): Promise<KnownFacts> {
    const known = new KnownFacts(options);
    if (!options.isOn) return known;
    options.cluster?.follow(prefix, (change) => {
      if (change.type === 'delete') known.#facts.delete(change.key.at(-1) ?? '');
      else known.#facts.set(change.entry.key.at(-1) ?? '', known.#unpack(change.entry));
    });
    const stale: string[] = [];
    for await (const entry of options.store.list(prefix)) {
      const id = entry.key.at(-1) ?? '';
      if (options.hasKey(id)) known.#facts.set(id, known.#unpack(entry));
      else stale.push(id);
    }
    for (const id of stale) await known.forget(id);
    return known;
  }

  /** Number of minions with known grains or pillar. */
  get size(): number {
    return this.#facts.size;
  }

  /** Returns the grains and pillar of a minion. */
  of(id: string): MinionFacts {
    return this.#facts.get(id) ?? nothingKnown;
  }

  /**
   * Returns the facts of a minion for decisions about rights. They contain the version of its
   * pillar that does not depend on the minion's own grains [THREATS M-09].
   */
  rightsOf(id: string): MinionFacts {
    const known = this.#facts.get(id);
    return known === undefined
      ? nothingKnown
      : { grains: known.grains, pillar: known.proven ?? known.pillar };
  }

  /**
   * Stores the grains and pillar of minions. They replace the previous ones. Durable when the
   * promise resolves. Unchanged data are not written. If the grains or the pillar of a minion
   * exceed the maximum size, they are not stored, and the previous ones are deleted.
   */
  async keep(minions: readonly FactsOfMinion[]): Promise<void> {
    const writes = minions.flatMap((minion) => this.#note(minion));
    await writeInParts(this.#options.store, writes);
  }

  /** Deletes the grains and pillar of a minion. */
  async forget(id: string): Promise<void> {
    this.#facts.delete(id);
    await this.#options.store.write([{ op: 'delete', key: [...prefix, id] }]);
  }

  /**
   * Deletes either the grains or the pillar of a minion. The next pillar request of the minion
   * stores both again.
   */
  async forgetPart(id: string, part: 'grains' | 'pillar'): Promise<void> {
    const known = this.#facts.get(id);
    if (known === undefined) return;
    const rest: Known =
      part === 'grains'
        ? { ...known, grains: undefined }
        : { ...known, pillar: undefined, proven: undefined };
    this.#facts.set(id, rest);
    await this.#options.store.write([{ op: 'put', key: [...prefix, id], value: this.#pack(rest) }]);
  }

  /**
   * Updates the facts in memory, and returns the operations that store them. Does nothing if the
   * minion has no key. This check and the update are one synchronous step. If the key is deleted
   * afterwards, {@link forget} finds the facts and deletes them from memory and from the store.
   */
  #note({ id, grains, pillar, proven = pillar }: FactsOfMinion): Operation[] {
    if (!this.#options.isOn || !this.#options.hasKey(id)) return [];
    const known: Known = {
      grains: this.#fit(grains),
      pillar: this.#fit(pillar),
      proven: proven === pillar ? undefined : (this.#fit(proven) ?? this.#fit({})),
    };
    if (isSame(known, this.#facts.get(id))) return [];
    this.#facts.set(id, known);
    return [{ op: 'put', key: [...prefix, id], value: this.#pack(known) }];
  }

  #fit(map: FactMap): PackedFacts | undefined {
    const { maxBytes } = this.#options;
    const packed = PackedFacts.from(map, this.#names);
    return maxBytes > 0 && packed.size > maxBytes ? undefined : packed;
  }

  #pack({ grains, pillar, proven }: Known): Uint8Array {
    return factsRow.encode({
      ...(grains && { grains: grains.pack() }),
      ...(pillar && { pillar: this.#sealed(pillar) }),
      ...(proven && { proven: this.#sealed(proven) }),
    });
  }

  #sealed(facts: PackedFacts): Uint8Array {
    return this.#options.seal.seal(facts.pack());
  }

  #unpack(entry: Pick<Entry, 'key' | 'value'>): Known {
    const { key } = entry;
    const { grains, pillar, proven } = factsRow.decode(entry);
    const { seal } = this.#options;
    const unpack = (value: Uint8Array | undefined): PackedFacts | undefined =>
      value && PackedFacts.unpack({ key, value }, this.#names);
    return {
      grains: unpack(grains),
      pillar: unpack(pillar && seal.open(pillar)),
      proven: unpack(proven && seal.open(proven)),
    };
  }
}

interface Known {
  readonly grains: PackedFacts | undefined;
  readonly pillar: PackedFacts | undefined;
  /**
   * Pillar that does not depend on the minion's grains. `undefined` if this pillar and `pillar` are
   * the same.
   */
  readonly proven: PackedFacts | undefined;
}

function isSame(left: Known, right: Known | undefined): boolean {
  return (
    right !== undefined &&
    isSamePart(left.grains, right.grains) &&
    isSamePart(left.pillar, right.pillar) &&
    isSamePart(left.proven, right.proven)
  );
}

function isSamePart(left: PackedFacts | undefined, right: PackedFacts | undefined): boolean {
  return left === undefined || right === undefined ? left === right : left.isSame(right);
}
