/** Converts wire values to Python values, and to the text that Python prints for them. */

import type { WorkBudget } from '#runtime';
import { RecursionGuard } from '#template/python/limits.ts';
import { repr, str, textRepr } from '#template/python/repr.ts';
import { Bytes, Dict, Float, type PyObject, Tuple, type Value } from '#template/python/values.ts';
import { isWireMap, WireDateTime, WireExtension, type WireValue } from './wire-value.ts';

/**
 * Functions that convert bytes, dates, extensions and map keys to Python values. Default:
 * conversions to the types that Salt gets from its MessagePack library.
 */
export interface PythonForms {
  readonly bytes?: (bytes: Uint8Array) => Value;
  readonly dateTime?: (value: WireDateTime) => Value;
  readonly extension?: (value: WireExtension) => Value;
  /** Changes a map key that was converted to a Python value. Default: the key is not changed. */
  readonly key?: (key: Value) => Value;
}

/** Returns the wire value as a Python value. A number without a fraction becomes an `int`. */
export function toPythonValue(value: WireValue, forms: PythonForms = {}): Value {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : new Float(value);
  if (value === null || typeof value !== 'object') return value;
  if (value instanceof Float) return value;
  if (value instanceof Uint8Array) return forms.bytes?.(value) ?? new Bytes(value);
  if (value instanceof WireDateTime) return forms.dateTime?.(value) ?? dateTimeObject(value);
  if (value instanceof WireExtension) return forms.extension?.(value) ?? extensionObject(value);
  if (Array.isArray(value)) return value.map((item) => toPythonValue(item, forms));
  const entries = value instanceof Map ? value : Object.entries(value);
  const dict = new Dict();
  for (const [key, item] of entries) {
    const hashable = toKey(toPythonValue(key, forms));
    dict.set(forms.key?.(hashable) ?? hashable, toPythonValue(item, forms));
  }
  return dict;
}

/**
 * Returns the value as a dictionary key. Lists become tuples; a map is not hashable in Python, so
 * its `repr` is used.
 */
function toKey(value: Value): Value {
  if (Array.isArray(value)) return new Tuple(value.map(toKey));
  return value instanceof Dict ? repr(value) : value;
}

function dateTimeObject({ text }: WireDateTime): PyObject {
  return {
    typeName: 'datetime',
    repr: () => `datetime.datetime(${text})`,
    str: () => text.replace('T', ' ').replace(/\.0{6}$/, ''),
  };
}

function extensionObject({ code, data }: WireExtension): PyObject {
  return {
    typeName: 'ExtType',
    repr: () => `ExtType(code=${code}, data=${repr(new Bytes(data))})`,
  };
}

/**
 * Returns the text that Python's `str(value)` returns. Salt compares grains and pillar values as
 * this text [salt/utils/data.py subdict_match].
 */
export function pythonStr(value: WireValue): string {
  if (typeof value === 'string') return value;
  return typeof value === 'object' && value !== null ? wireRepr(value) : scalarStr(value);
}

function scalarStr(value: WireValue): string {
  return unboundedStr(toPythonValue(value));
}

/**
 * Returns the text that Python's `repr(value)` returns. Values that JSON can represent are
 * formatted directly, without a conversion to Python values.
 */
function wireRepr(value: WireValue): string {
  if (typeof value === 'string') return textRepr(value);
  if (Array.isArray(value)) return `[${value.map(wireRepr).join(', ')}]`;
  if (isWireMap(value)) {
    const pairs = Object.entries(value).map(([key, item]) => `${textRepr(key)}: ${wireRepr(item)}`);
    return `{${pairs.join(', ')}}`;
  }
  return scalarStr(value);
}

/** Work steps that are counted for each scalar, in addition to those for its characters. */
const stepsOfScalar = 100;
/** Number of characters that count as one work step. */
const charactersPerStep = 4;

/**
 * Returns the text that Python's `str(value)` returns. Values from minions may be large, so other
 * work can run in between (see {@link WorkBudget.giveWay}). The steps do not count towards the
 * limit of the budget.
 */
export async function pythonStrInSlices(value: WireValue, budget: WorkBudget): Promise<string> {
  if (typeof value === 'string') return value;
  const isContainer = Array.isArray(value) || value instanceof Map || isWireMap(value);
  if (!isContainer) return scalarStr(value);
  const chunks: string[] = [];
  const pieces: string[] = [];
  await writeRepr(value, { chunks, pieces }, budget);
  return chunks.join('') + pieces.join('');
}

/**
 * Text that is being formatted: all `chunks`, followed by all `pieces`. Because there may be
 * millions of pieces, the formatter joins them to one chunk whenever it pauses.
 */
interface WrittenText {
  readonly chunks: string[];
  readonly pieces: string[];
}

/** Appends the text that Python's `repr(value)` returns. */
async function writeRepr(value: WireValue, text: WrittenText, budget: WorkBudget): Promise<void> {
  const { chunks, pieces } = text;
  if (Array.isArray(value)) {
    let separator = '[';
    for (const item of value) {
      pieces.push(separator);
      await writeRepr(item, text, budget);
      separator = ', ';
    }
    pieces.push(value.length === 0 ? '[]' : ']');
    return;
  }
  if (value instanceof Map || isWireMap(value)) {
    const items = value instanceof Map ? await equalKeysMerged(value, budget) : value;
    let separator = '{';
    for (const [key, item] of items instanceof Map ? items : Object.entries(items)) {
      pieces.push(separator, unboundedRepr(key), ': ');
      await writeRepr(item, text, budget);
      separator = ', ';
    }
    pieces.push(separator === '{' ? '{}' : '}');
    return;
  }
  const scalar = unboundedRepr(toPythonValue(value));
  pieces.push(scalar);
  budget.addToSlice(stepsOfScalar + scalar.length / charactersPerStep);
  if (!budget.isSliceOver) return;
  chunks.push(pieces.join(''));
  pieces.length = 0;
  await budget.giveWay();
}

/**
 * Converts the keys of a map to keys of a Python dictionary. If several keys are equal in Python,
 * such as `1` and `True`, keeps only the first key, with the value of the last one.
 */
async function equalKeysMerged(
  map: ReadonlyMap<WireValue, WireValue>,
  budget: WorkBudget,
): Promise<Map<Value, WireValue>> {
  const keys = new Dict();
  const items: WireValue[] = [];
  for (const [key, item] of map) {
    keys.set(toKey(toPythonValue(key)), items.push(item) - 1);
    await budget.giveWayAfter(stepsOfScalar);
  }
  const merged = new Map<Value, WireValue>();
  for (const [key, at] of keys.entries()) merged.set(key, items[Number(at)] ?? null);
  return merged;
}

/**
 * Returns the text that Python's `str(value)` returns, without a limit for the depth of lists and
 * maps. Use it only for values of limited depth, such as values from the wire.
 */
export function unboundedStr(value: Value): string {
  const isContainer = Array.isArray(value) || value instanceof Dict;
  return isContainer ? unboundedRepr(value) : str(value);
}

function unboundedRepr(value: Value): string {
  return repr(value, new RecursionGuard(Number.POSITIVE_INFINITY));
}
