/**
 * Writes YAML 1.1 like PyYAML with libyaml, which Salt prefers for filters and for `--out yaml`
 * [salt/utils/yamldumper.py].
 */

import { sortValues } from './comparison.ts';
import { PythonException } from './exceptions.ts';
import type { RecursionGuard, UsageMeter } from './limits.ts';
import { Bytes, Dict, isPyObject, type PyObject, PySet, Tuple, type Value } from './values.ts';
import { YamlEmitter } from './yaml-emitter.ts';
import { representScalar } from './yaml-scalar.ts';
import { isSimpleKey, scalarStyle } from './yaml-style.ts';

/** Options for writing YAML. */
export interface DumpOptions {
  /**
   * Whether collections are written with braces and brackets. `null`: only collections in which all
   * items are scalars.
   */
  readonly flowStyle: boolean | null;
  /** Spaces per level. Default: 2. */
  readonly indent?: number;
  /** Returns the text of an object that has no form in YAML. Default: `NULL`, as in Salt. */
  readonly objectText?: (object: PyObject) => string;
  readonly meter: UsageMeter;
}

/**
 * Writes a value as YAML.
 * @throws LimitExceeded
 */
export function dumpYaml(value: Value, options: DumpOptions): string {
  const writer = new YamlWriter(options);
  writer.findShared(value);
  return writer.document(value);
}

interface NodePosition {
  readonly isInFlow: boolean;
  readonly isKey: boolean;
  readonly isInMapping: boolean;
}

/** A value that is written as a mapping or a sequence. */
export type Collection = Value[] | Tuple | Dict | PySet;

class YamlWriter {
  readonly #options: DumpOptions;
  readonly #emitter: YamlEmitter;
  readonly #perLevel: number;
  readonly #walk: RecursionGuard;
  /** Anchors of the collections that occur more than once, by collection. */
  readonly #anchors = new Map<object, string>();
  readonly #seen = new Set<object>();
  readonly #written = new Set<object>();
  #isRoot = true;

  constructor(options: DumpOptions) {
    this.#options = options;
    this.#emitter = new YamlEmitter(options.meter);
    this.#perLevel = options.indent ?? 2;
    this.#walk = options.meter.walk();
  }

  /**
   * Finds collections that occur more than once. Each of them gets an anchor, numbered in the order
   * of the second occurrences.
   */
  findShared(value: Value): void {
    if (!isCollection(value)) return;
    if (this.#seen.has(value)) {
      if (!this.#anchors.has(value)) {
        this.#anchors.set(value, `id${String(this.#anchors.size + 1).padStart(3, '0')}`);
      }
      return;
    }
    this.#seen.add(value);
    this.#walk.into(value, () => {
      if (value instanceof Dict) {
        for (const key of this.#keys(value)) {
          this.findShared(key);
          this.findShared(value.get(key) ?? null);
        }
      } else {
        for (const item of itemsOf(value)) this.findShared(item);
      }
    });
  }

  document(value: Value): string {
    this.#node(value, { isInFlow: false, isKey: false, isInMapping: false });
    return this.#emitter.text;
  }

  #node(value: Value, place: NodePosition): void {
    const isRoot = this.#isRoot;
    this.#isRoot = false;
    this.#options.meter.step();
    if (!isCollection(value)) {
      this.#scalar(value, place);
      return;
    }
    const anchor = this.#anchors.get(value);
    if (anchor !== undefined) {
      const isAlias = this.#written.has(value);
      this.#emitter.indicator(`${isAlias ? '*' : '&'}${anchor}`, { needsSpace: true });
      if (isAlias) return;
      this.#written.add(value);
    }
    const isSet = value instanceof PySet;
    if (isSet) this.#emitter.indicator('!!set', { needsSpace: true });
    const outer = this.#emitter.indent;
    this.#walk.into(value, () => this.#collection(value, place, isRoot));
    this.#emitter.indent = outer;
  }

  #collection(value: Collection, place: NodePosition, isRoot: boolean): void {
    const isFlow = place.isInFlow || this.#isFlow(value) || sizeOf(value) === 0;
    const isMapping = value instanceof Dict || value instanceof PySet;
    const isIndentless = !isFlow && !isMapping && place.isInMapping && !this.#emitter.isIndented;
    if (isFlow || !(isRoot || isIndentless))
      this.#emitter.indent += isRoot && !isFlow ? 0 : this.#perLevel;
    const pairs = isMapping ? this.#pairs(value) : [];
    if (isFlow && isMapping) this.#flowMapping(pairs);
    else if (isFlow) this.#flowSequence(itemsOf(value));
    else if (isMapping) this.#blockMapping(pairs);
    else this.#blockSequence(itemsOf(value));
  }

  #isFlow(value: Collection): boolean {
    const { flowStyle } = this.#options;
    if (flowStyle !== null) return flowStyle;
    const parts = value instanceof Dict ? [...value.keys(), ...value.values()] : itemsOf(value);
    return !parts.some(isCollection);
  }

  #flowSequence(items: readonly Value[]): void {
    this.#emitter.indicator('[', { needsSpace: true, spaced: true });
    for (const [index, item] of items.entries()) {
      if (index > 0) this.#emitter.indicator(',');
      if (this.#emitter.isWide) this.#emitter.newLine();
      this.#node(item, { isInFlow: true, isKey: false, isInMapping: false });
    }
    this.#emitter.indicator(']');
  }

  #flowMapping(pairs: readonly (readonly [Value, Value])[]): void {
    this.#emitter.indicator('{', { needsSpace: true, spaced: true });
    for (const [index, [key, value]] of pairs.entries()) {
      if (index > 0) this.#emitter.indicator(',');
      if (this.#emitter.isWide) this.#emitter.newLine();
      const place = { isInFlow: true, isKey: false, isInMapping: true };
      if (this.#isSimple(key)) {
        this.#node(key, { ...place, isKey: true });
        this.#emitter.indicator(':');
      } else {
        this.#emitter.indicator('?', { needsSpace: true });
        this.#node(key, place);
        if (this.#emitter.isWide) this.#emitter.newLine();
        this.#emitter.indicator(':', { needsSpace: true });
      }
      this.#node(value, place);
    }
    this.#emitter.indicator('}');
  }

  #blockSequence(items: readonly Value[]): void {
    for (const item of items) {
      this.#emitter.newLine();
      this.#emitter.indicator('-', { needsSpace: true, indents: true });
      this.#node(item, { isInFlow: false, isKey: false, isInMapping: false });
    }
  }

  #blockMapping(pairs: readonly (readonly [Value, Value])[]): void {
    for (const [key, value] of pairs) {
      const place = { isInFlow: false, isKey: false, isInMapping: true };
      this.#emitter.newLine();
      if (this.#isSimple(key)) {
        this.#node(key, { ...place, isKey: true });
        this.#emitter.indicator(':');
      } else {
        this.#emitter.indicator('?', { needsSpace: true, indents: true });
        this.#node(key, place);
        this.#emitter.newLine();
        this.#emitter.indicator(':', { needsSpace: true, indents: true });
      }
      this.#node(value, place);
    }
  }

  #isSimple(key: Value): boolean {
    if (isCollection(key)) return sizeOf(key) === 0;
    if (key instanceof Bytes) return key.bytes.length === 0;
    return typeof key !== 'string' || isSimpleKey(key);
  }

  #scalar(value: Value, place: NodePosition): void {
    this.#emitter.indent += this.#perLevel;
    this.#writeScalar(value, place);
    this.#emitter.indent -= this.#perLevel;
  }

  #writeScalar(value: Value, { isInFlow, isKey }: NodePosition): void {
    if (value instanceof Bytes) {
      this.#emitter.indicator('!!binary', { needsSpace: true });
      this.#bytes(value.bytes, isInFlow);
      return;
    }
    if (typeof value !== 'string') {
      const { objectText } = this.#options;
      const text = isPyObject(value) ? objectText?.(value) : undefined;
      // Markup has no form in YAML either.
      this.#emitter.plain(representScalar(value) ?? text ?? 'NULL', !isKey);
      return;
    }
    this.#emitter[scalarStyle(value, { isInFlow, isKey })](value, !isKey);
  }

  #bytes(bytes: Uint8Array, isInFlow: boolean): void {
    const text = Buffer.from(bytes).toString('base64');
    const lines = text.match(/.{1,76}/g) ?? [];
    if (isInFlow || lines.length === 0) {
      this.#emitter.double(lines.map((line) => `${line}\n`).join(''), false);
    } else {
      this.#emitter.literal(lines);
    }
  }

  #pairs(value: Dict | PySet): (readonly [Value, Value])[] {
    if (value instanceof PySet)
      return sortedKeys(value.values(), this.#options.meter).map((key) => [key, null] as const);
    return this.#keys(value).map((key) => [key, value.get(key) ?? null] as const);
  }

  #keys(dict: Dict): Value[] {
    return sortedKeys(dict.keys(), this.#options.meter);
  }
}

/**
 * Sorts keys if they can be ordered.
 * @throws LimitExceeded
 */
function sortedKeys(keys: Value[], meter: UsageMeter): Value[] {
  try {
    return sortValues(keys, {}, meter);
  } catch (error) {
    if (error instanceof PythonException) return keys;
    throw error;
  }
}

/** Whether a value is written as a mapping or a sequence. */
export function isCollection(value: Value): value is Collection {
  return (
    Array.isArray(value) ||
    value instanceof Tuple ||
    value instanceof Dict ||
    value instanceof PySet
  );
}

function itemsOf(value: Collection): readonly Value[] {
  if (Array.isArray(value)) return value;
  return value instanceof Tuple ? value.items : value.values();
}

function sizeOf(value: Collection): number {
  return value instanceof Dict || value instanceof PySet ? value.size : itemsOf(value).length;
}
