import { isDeepStrictEqual } from 'node:util';
import {
  type FactMap,
  type FactSource,
  packLocal,
  unpackLocal,
  type WireMap,
  type WireValue,
} from '../../minion-protocol/index.ts';
import { StoreError } from '../../store/index.ts';

const endBytes = 4;
/** Characters of all names of a list; longer ones are not shared. */
const maxListLength = 8192;

/**
 * Names of grains and pillar keys, each kept once however many minions have it. Bounded, because
 * minions may make names up: what comes after the last is not shared.
 */
export class SharedNames {
  readonly #names = new Map<string, string>();
  readonly #lists = new Map<string, readonly string[]>();
  readonly #maxNames: number;
  readonly #maxLists: number;

  /**
   * @param maxNames default 20,000, more than any fleet's grains and pillars have
   * @param maxLists default 1000: minions of one kind have the same names
   */
  constructor(maxNames = 20_000, maxLists = 1000) {
    this.#maxNames = maxNames;
    this.#maxLists = maxLists;
  }

  /** How many are kept. */
  get size(): number {
    return this.#names.size;
  }

  share(name: string): string {
    const known = this.#names.get(name);
    if (known !== undefined) return known;
    if (this.#names.size < this.#maxNames) this.#names.set(name, name);
    return name;
  }

  /** The names, in one list for all minions that have just these. */
  shareAll(names: readonly string[]): readonly string[] {
    const text = JSON.stringify(names);
    const known = this.#lists.get(text);
    if (known !== undefined) return known;
    const list = names.map((name) => this.share(name));
    const isUsual = text.length <= maxListLength;
    if (isUsual && this.#lists.size < this.#maxLists) this.#lists.set(text, list);
    return list;
  }
}

/**
 * Grains or pillar of one minion as they lie in memory: the values stay packed, and only those
 * that a target names are ever unpacked. As objects they take some ten times the room.
 */
export class PackedFacts implements FactSource {
  readonly #names: readonly string[];
  /** Where each value ends, in four bytes each; then the values. */
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
   * What {@link PackedFacts.pack} gave.
   * @throws StoreError ERR_STORE_CORRUPT
   */
  static unpack(bytes: Uint8Array, shared: SharedNames): PackedFacts {
    const [names, values] = asList(unpackLocal(bytes));
    return new PackedFacts(shared.shareAll(asList(names).map(String)), asList(values).map(asBytes));
  }

  /** Names and packed values, for the store. */
  pack(): Uint8Array {
    return packLocal([[...this.#names], this.#names.map((_, index) => this.#slice(index))]);
  }

  /** Bytes of the values. */
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

function asList(value: WireValue | undefined): WireValue[] {
  if (Array.isArray(value)) return value;
  throw new StoreError('ERR_STORE_CORRUPT', 'stored minion data have an unknown form');
}

function asBytes(value: WireValue): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw new StoreError('ERR_STORE_CORRUPT', 'stored minion data have an unknown form');
}
