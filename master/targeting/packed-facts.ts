import {
  type FactMap,
  type FactSource,
  packLocal,
  unpackLocal,
  type WireMap,
  type WireValue,
} from '../../minion-protocol/index.ts';
import { StoreError } from '../../store/index.ts';

/**
 * Names of grains and pillar keys, each kept once however many minions have it. Bounded, because
 * minions may make names up: what comes after the last is not shared.
 */
export class SharedNames {
  readonly #names = new Map<string, string>();
  readonly #maxNames: number;

  /** @param maxNames default 20,000, more than any fleet's grains and pillars have */
  constructor(maxNames = 20_000) {
    this.#maxNames = maxNames;
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
}

/**
 * Grains or pillar of one minion as they lie in memory: the values stay packed, and only those
 * that a target names are ever unpacked. As objects they take some ten times the room.
 */
export class PackedFacts implements FactSource {
  readonly #names: readonly string[];
  /** Where each value ends. */
  readonly #ends: Uint32Array;
  readonly #bytes: Uint8Array;

  private constructor(names: readonly string[], values: readonly Uint8Array[]) {
    this.#names = names;
    this.#ends = new Uint32Array(values.length);
    this.#bytes = new Uint8Array(values.reduce((sum, value) => sum + value.length, 0));
    let end = 0;
    for (const [index, value] of values.entries()) {
      this.#bytes.set(value, end);
      end += value.length;
      this.#ends[index] = end;
    }
  }

  static from(map: FactMap, shared: SharedNames): PackedFacts {
    const entries: [WireValue, WireValue][] = map instanceof Map ? [...map] : Object.entries(map);
    return new PackedFacts(
      entries.map(([key]) => shared.share(String(key))),
      entries.map(([, value]) => packLocal(value)),
    );
  }

  /**
   * What {@link PackedFacts.pack} gave.
   * @throws StoreError ERR_STORE_CORRUPT
   */
  static unpack(bytes: Uint8Array, shared: SharedNames): PackedFacts {
    const [names, values] = asList(unpackLocal(bytes));
    return new PackedFacts(
      asList(names).map((name) => shared.share(String(name))),
      asList(values).map(asBytes),
    );
  }

  /** Names and packed values, for the store. */
  pack(): Uint8Array {
    return packLocal([[...this.#names], this.#names.map((_, index) => this.#slice(index))]);
  }

  /** Bytes of the values. */
  get size(): number {
    return this.#bytes.length;
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
      this.#names.length === other.#names.length &&
      this.#names.every((name, index) => name === other.#names[index]) &&
      Buffer.compare(this.#bytes, other.#bytes) === 0
    );
  }

  #slice(index: number): Uint8Array {
    return this.#bytes.subarray(index === 0 ? 0 : this.#ends[index - 1], this.#ends[index]);
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
