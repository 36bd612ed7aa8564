/** `pprint.pformat`. */

import { LimitExceeded, PythonException } from './exceptions.ts';
import type { UsageMeter } from './limits.ts';
import { isOrdered } from './operators.ts';
import { Dict, PySet, repr, Tuple, typeName, Undefined, type Value } from './values.ts';

const width = 80;
const maxNesting = 200;

/** @throws LimitExceeded */
export function pformat(value: Value, meter: UsageMeter): string {
  return layout(value, 0, 0, 0, meter);
}

function layout(
  value: Value,
  indent: number,
  after: number,
  level: number,
  meter: UsageMeter,
): string {
  if (level > maxNesting) throw new LimitExceeded('levels of data', maxNesting);
  const ordered = orderKeys(value, meter, 0);
  const flat = repr(ordered);
  meter.text(flat.length);
  if (flat.length <= width - indent - after) return flat;
  const inner = (item: Value, at: number, rest: number): string =>
    layout(item, at, rest, level + 1, meter);
  if (ordered instanceof Dict && ordered.size > 0) return layoutDict(ordered, indent, after, inner);
  if (Array.isArray(ordered)) return layoutItems('[', ordered, ']', indent, after, inner);
  if (ordered instanceof Tuple) {
    const end = ordered.items.length === 1 ? ',)' : ')';
    return layoutItems('(', ordered.items, end, indent, after, inner);
  }
  if (ordered instanceof PySet && ordered.size > 0) {
    return layoutItems('{', ordered.values(), '}', indent, after, inner);
  }
  return flat;
}

type Inner = (item: Value, indent: number, after: number) => string;

function layoutItems(
  open: string,
  items: readonly Value[],
  close: string,
  indent: number,
  after: number,
  inner: Inner,
): string {
  const separator = `,\n${' '.repeat(indent + 1)}`;
  const parts = items.map((item, index) =>
    inner(item, indent + 1, index === items.length - 1 ? after + close.length : 1),
  );
  return open + parts.join(separator) + close;
}

function layoutDict(dict: Dict, indent: number, after: number, inner: Inner): string {
  const entries = [...dict.entries()];
  const parts = entries.map(([key, value], index) => {
    const name = repr(key);
    const rest = index === entries.length - 1 ? after + 1 : 1;
    return `${name}: ${inner(value, indent + name.length + 3, rest)}`;
  });
  return `{${parts.join(`,\n${' '.repeat(indent + 1)}`)}}`;
}

/** Dicts are shown with their keys in order, where they have one. */
function orderKeys(value: Value, meter: UsageMeter, level: number): Value {
  if (level > maxNesting) throw new LimitExceeded('levels of data', maxNesting);
  meter.step();
  const inner = (item: Value): Value => orderKeys(item, meter, level + 1);
  if (Array.isArray(value)) return value.map(inner);
  if (value instanceof Tuple) return new Tuple(value.items.map(inner));
  if (value instanceof Undefined) return value;
  if (!(value instanceof Dict)) return value;
  return new Dict(
    keysInOrder(value, meter).map((key) => [key, inner(value.get(key) ?? null)] as const),
  );
}

/** Keys that have no order among them go by the names of their types. */
function keysInOrder(dict: Dict, meter: UsageMeter): Value[] {
  meter.step(dict.size);
  return dict.keys().sort((left, right) => {
    if (isBefore(left, right)) return -1;
    return isBefore(right, left) ? 1 : 0;
  });
}

function isBefore(left: Value, right: Value): boolean {
  try {
    return isOrdered(left, '<', right);
  } catch (error) {
    if (!(error instanceof PythonException)) throw error;
    return typeName(left) < typeName(right);
  }
}
