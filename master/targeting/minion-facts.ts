import {
  type FactMap,
  isWireMap,
  type MinionFacts,
  packLocal,
  unpackLocal,
  type WireValue,
} from '../../minion-protocol/index.ts';
import { type Key, type Operation, type Store, StoreError } from '../../store/index.ts';
import type { Seal } from '../secrets/seal.ts';
import { PackedFacts, SharedNames } from './packed-facts.ts';

const prefix: Key = ['minion-data'];

const nothingKnown: MinionFacts = { grains: undefined, pillar: undefined };

/** What {@link KnownFacts} needs. */
export interface KnownFactsOptions {
  readonly store: Store;
  readonly seal: Seal;
  /** `minion_data_cache`: whether anything is kept. */
  readonly isOn: boolean;
  /** `grains_bytes`: of grains, and of pillar, one by one; 0: any size. */
  readonly maxBytes: number;
  /** Whether an id has a key in any state; the facts of others are forgotten. */
  readonly hasKey: (id: string) => boolean;
}

/** Grains and pillar of a minion, as it sent the ones and got the other. */
export interface FactsOfMinion {
  readonly id: string;
  readonly grains: FactMap;
  readonly pillar: FactMap;
  /** The pillar that it would have got without its grains. Default: the same. */
  readonly proven?: FactMap;
}

/**
 * The minion data cache: what minions last said of themselves, and the pillar that they got
 * [WIRE 9.3]. Pillar is sealed in the store. Grains are the minion's own word: they tell for whom
 * to wait, and must not decide what anybody may do [THREATS M-09].
 */
export class KnownFacts {
  readonly #options: KnownFactsOptions;
  readonly #names = new SharedNames();
  readonly #facts = new Map<string, Known>();

  private constructor(options: KnownFactsOptions) {
    this.#options = options;
  }

  /** Reads what is stored. @throws StoreError ERR_STORE_CORRUPT, MasterError ERR_SEAL */
  static async open(options: KnownFactsOptions): Promise<KnownFacts> {
    const known = new KnownFacts(options);
    if (!options.isOn) return known;
    const stale: string[] = [];
    for await (const entry of options.store.list(prefix)) {
      const id = entry.key.at(-1) ?? '';
      if (options.hasKey(id)) known.#facts.set(id, known.#unpack(entry.value));
      else stale.push(id);
    }
    for (const id of stale) await known.forget(id);
    return known;
  }

  /** Of how many minions something is known. */
  get size(): number {
    return this.#facts.size;
  }

  /** What is known of a minion. */
  of(id: string): MinionFacts {
    return this.#facts.get(id) ?? nothingKnown;
  }

  /** What rights may go by: of pillar what a minion's own grains have no part in [THREATS M-09]. */
  rightsOf(id: string): MinionFacts {
    const known = this.#facts.get(id);
    return known === undefined
      ? nothingKnown
      : { grains: known.grains, pillar: known.proven ?? known.pillar };
  }

  /**
   * Keeps the facts of minions in place of what was known; on disk when it resolves. The same
   * facts again cost no write. Of what is too big nothing is known afterwards.
   */
  async keep(minions: readonly FactsOfMinion[]): Promise<void> {
    const writes = minions.flatMap((minion) => this.#note(minion));
    if (writes.length > 0) await this.#options.store.write(writes);
  }

  /** Forgets a minion. */
  async forget(id: string): Promise<void> {
    this.#facts.delete(id);
    await this.#options.store.write([{ op: 'delete', key: [...prefix, id] }]);
  }

  /** Forgets one of the two; the minion sends both again with its next request for pillar. */
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

  /** In memory at once, so that a key deleted meanwhile is forgotten after it and not before. */
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
    return packLocal({
      grains: grains?.pack() ?? null,
      pillar: this.#sealed(pillar),
      ...(proven === undefined ? {} : { proven: this.#sealed(proven) }),
    });
  }

  #sealed(facts: PackedFacts | undefined): Uint8Array | null {
    return facts === undefined ? null : this.#options.seal.seal(facts.pack());
  }

  #opened(sealed: WireValue | undefined): PackedFacts | undefined {
    if (!(sealed instanceof Uint8Array)) return undefined;
    return PackedFacts.unpack(this.#options.seal.open(sealed), this.#names);
  }

  #unpack(bytes: Uint8Array): Known {
    const record = unpackLocal(bytes);
    if (!isWireMap(record)) {
      throw new StoreError('ERR_STORE_CORRUPT', 'stored minion data have an unknown form');
    }
    const { grains, pillar, proven } = record;
    return {
      grains: grains instanceof Uint8Array ? PackedFacts.unpack(grains, this.#names) : undefined,
      pillar: this.#opened(pillar),
      proven: this.#opened(proven),
    };
  }
}

interface Known {
  readonly grains: PackedFacts | undefined;
  readonly pillar: PackedFacts | undefined;
  /** What of the pillar grains have no part in; `undefined`: all of it. */
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
