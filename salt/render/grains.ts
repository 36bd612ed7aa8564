import { hash } from 'node:crypto';
import {
  type FactMap,
  type FactSource,
  factsOf,
  packLocal,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { type Dict, LateDict, type LateValue, toPython, type Value } from '#template';
import { LateGrain, type PrintedMarks } from './late-grains.ts';

const digestBytes = 32;

/** Record of the grains that a rendering has read. */
export class GrainReads {
  /** Fingerprint of each grain that was read; `null` if the grain did not exist. */
  readonly values: Map<string, Buffer | null> = new Map();
  /** Fingerprint of all grains. Set if the rendering iterated over them. */
  whole: Buffer | undefined;
  /** Grains that the rendering has printed as placeholders, without reading their values. */
  readonly late: Set<string> = new Set();
  /** Number of placeholders that the rendering has printed instead of values of grains. */
  marks = 0;

  /** Records that the rendering has printed a placeholder instead of the value of a grain. */
  addMark(grain: string): void {
    this.late.add(grain);
    this.marks += 1;
  }

  /** Whether no grain was used except the id, which is verified. */
  get isEmpty(): boolean {
    const used = [...this.values.keys(), ...this.late];
    return used.every((name) => name === 'id') && this.whole === undefined;
  }

  /**
   * Returns a text for use as a cache key. It contains the names of the grains that were read and
   * the fingerprints of their values.
   */
  text(): string {
    const values = Array.from(this.values, ([name, mark]) => [name, mark?.toString('base64')]);
    return JSON.stringify([values, this.whole?.toString('base64')]);
  }

  /** Whether each grain that was read has the same value in the given grains. */
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

/** Grains for one rendering. Records which grains the rendering reads. */
export class TracedGrains implements FactSource {
  readonly #grains: WireMap;
  readonly #facts: FactSource;
  readonly #reads: GrainReads;
  readonly #marks: PrintedMarks | undefined;

  /**
   * @param marks - object that records which placeholders were printed for grains. If it is absent,
   * no placeholders are printed: each use of a grain reads its value
   */
  constructor(grains: WireMap, reads: GrainReads, marks?: PrintedMarks) {
    this.#grains = grains;
    this.#facts = factsOf(grains);
    this.#reads = reads;
    this.#marks = marks;
  }

  /**
   * Returns an object that stands for a grain in a template. If the template only prints the
   * object, it prints a placeholder, and the value of the grain is not read. Returns `undefined` if
   * this grain cannot have a placeholder. The template must then read the value.
   * @param holder - reads the value if the template needs it, and reports whether it was read.
   * Default: reads a new copy of the value
   */
  late(
    key: string,
    holder: { readonly isRead: () => boolean; readonly read: () => Value } = this.#copyOf(key),
  ): LateGrain | undefined {
    const marks = this.#marks;
    if (marks === undefined || !marks.isLate(key)) return undefined;
    return LateGrain.of([key], grainOf(this.#grains, key), { marks, ...holder });
  }

  #copyOf(key: string): { readonly isRead: () => boolean; readonly read: () => Value } {
    let copy: Value | undefined;
    return {
      isRead: () => copy !== undefined,
      read: () => {
        copy ??= toPython(this.get(key) ?? null);
        return copy;
      },
    };
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
    if (this.#reads.values.has(key)) return;
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
export class GrainsDict extends LateDict {
  readonly #grains: TracedGrains;
  readonly #settled = new Set<string>();

  constructor(grains: TracedGrains) {
    super();
    this.#grains = grains;
  }

  override late(key: Value): LateValue | undefined {
    if (typeof key !== 'string' || this.#settled.has(key)) return undefined;
    return this.#grains.late(key, {
      isRead: () => this.#settled.has(key),
      read: () => this.get(key) ?? null,
    });
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

/** Names of the options that contain the minion's id. */
const idOptions: ReadonlySet<Value> = new Set(['id', 'minion_id']);

/**
 * The value `opts` of templates. If a template reads the minion's id from `opts`, this is recorded
 * as if it had read the grain `id`.
 */
export class OptionsDict extends LateDict {
  readonly #grains: TracedGrains;
  readonly #changed = new Set<Value>();

  constructor(options: Readonly<Record<string, unknown>>, grains: TracedGrains) {
    super();
    this.#grains = grains;
    for (const [name, value] of Object.entries(options)) super.set(name, toPython(value));
  }

  override late(key: Value): LateValue | undefined {
    if (!idOptions.has(key) || this.#changed.has(key) || !this.has(key)) return undefined;
    return this.#grains.late('id', {
      isRead: () => false,
      read: () => {
        this.#grains.note('id');
        return super.get(key) ?? null;
      },
    });
  }

  override get(key: Value): Value | undefined {
    if (idOptions.has(key)) this.#grains.note('id');
    return super.get(key);
  }

  override set(key: Value, value: Value): void {
    this.#changed.add(key);
    super.set(key, value);
  }

  override delete(key: Value): boolean {
    this.#changed.add(key);
    return super.delete(key);
  }

  override clear(): void {
    for (const name of idOptions) this.#changed.add(name);
    super.clear();
  }

  override entries(): ReturnType<Dict['entries']> {
    this.#grains.note('id');
    return super.entries();
  }

  override values(): Value[] {
    this.#grains.note('id');
    return super.values();
  }
}

/** Returns a fingerprint of a grain, or `null` if the minion does not have it. */
export function markOfGrain(grains: WireMap, key: string): Buffer | null {
  const value = grainOf(grains, key);
  return value === undefined ? null : markOf(value);
}

function grainOf(grains: WireMap, key: string): WireValue | undefined {
  return Object.hasOwn(grains, key) ? grains[key] : undefined;
}

/**
 * Returns a fingerprint of a value: its packed form or the digest of this form, whichever is
 * shorter.
 */
function markOf(value: WireValue): Buffer {
  const packed = packLocal(value);
  return packed.length < digestBytes ? Buffer.from(packed) : hash('sha256', packed, 'buffer');
}
