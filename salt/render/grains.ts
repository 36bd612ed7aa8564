import { createHash } from 'node:crypto';
import {
  type FactMap,
  type FactSource,
  factsOf,
  packLocal,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { Dict, toPython, type Value } from '#template';

const digestBytes = 32;

/** Record of the grains that a rendering has read. */
export class GrainReads {
  /** Fingerprint of each grain that was read; `null` if the grain did not exist. */
  readonly values: Map<string, Buffer | null> = new Map();
  /** Fingerprint of all grains. Set if the rendering iterated over them. */
  whole: Buffer | undefined;

  /** Whether no grain was read except the id, which is verified. */
  get isEmpty(): boolean {
    return this.values.size === 0 && this.whole === undefined;
  }

  /** Whether the given grains contain the same values for all grains that were read. */
  agreeWith(grains: WireMap): boolean {
    if (this.whole !== undefined && !this.whole.equals(markOf(grains))) return false;
    for (const [key, before] of this.values) {
      const now = grainOf(grains, key);
      if (before === null || now === undefined) {
        if (before !== null || now !== undefined) return false;
      } else if (!before.equals(markOf(now))) return false;
    }
    return true;
  }
}

/** Grains that record which of them a rendering reads. */
export class TracedGrains implements FactSource {
  readonly #grains: WireMap;
  readonly #facts: FactSource;
  readonly #reads: GrainReads;

  constructor(grains: WireMap, reads: GrainReads) {
    this.#grains = grains;
    this.#facts = factsOf(grains);
    this.#reads = reads;
  }

  get(key: string): WireValue | undefined {
    this.note(key);
    return this.#facts.get(key);
  }

  whole(): FactMap {
    if (this.#reads.whole === undefined) this.#reads.whole = markOf(this.#grains);
    return this.#grains;
  }

  note(key: string): void {
    if (key === 'id' || this.#reads.values.has(key)) return;
    const value = grainOf(this.#grains, key);
    this.#reads.values.set(key, value === undefined ? null : markOf(value));
  }

  names(): string[] {
    return Object.keys(this.#grains);
  }
}

/**
 * Grains as a dictionary for templates. Each value is converted at its first use. A template can
 * change only its own copy.
 */
export class GrainsDict extends Dict {
  readonly #grains: TracedGrains;
  readonly #settled = new Set<string>();

  constructor(grains: TracedGrains) {
    super();
    this.#grains = grains;
  }

  override get size(): number {
    this.#settleAll();
    return super.size;
  }

  override get(key: Value): Value | undefined {
    this.#settle(key);
    return super.get(key);
  }

  override has(key: Value): boolean {
    this.#settle(key);
    return super.has(key);
  }

  override set(key: Value, value: Value): void {
    this.#settle(key);
    super.set(key, value);
  }

  override delete(key: Value): boolean {
    this.#settle(key);
    return super.delete(key);
  }

  override clear(): void {
    this.#settleAll();
    super.clear();
  }

  override entries(): ReturnType<Dict['entries']> {
    this.#settleAll();
    return super.entries();
  }

  override keys(): Value[] {
    this.#settleAll();
    return super.keys();
  }

  override values(): Value[] {
    this.#settleAll();
    return super.values();
  }

  #settle(key: Value): void {
    if (typeof key !== 'string' || this.#settled.has(key)) return;
    this.#settled.add(key);
    const value = this.#grains.get(key);
    if (value !== undefined) super.set(key, toPython(value));
  }

  #settleAll(): void {
    this.#grains.whole();
    for (const name of this.#grains.names()) this.#settle(name);
  }
}

function grainOf(grains: WireMap, key: string): WireValue | undefined {
  return Object.hasOwn(grains, key) ? grains[key] : undefined;
}

/** Returns a fingerprint of a value: its packed form, or its digest if that is shorter. */
function markOf(value: WireValue): Buffer {
  const packed = packLocal(value);
  return packed.length < digestBytes
    ? Buffer.from(packed)
    : createHash('sha256').update(packed).digest();
}
