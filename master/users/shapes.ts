/** Describes the shapes of data, without values. */

import { isPlainObject, type WireValue } from '#minion-protocol';

/** Values of one piece of data that are looked at. */
const maxParts = 200;
const maxDepth = 16;

/**
 * The shape of data as text: the same for data that differ in their texts and numbers alone.
 * `undefined` for what JSON cannot say, and for what is too large to be looked at each time.
 */
export function shapeOf(value: WireValue | undefined): string | undefined {
  let parts = 0;
  const describe = (part: unknown, depth: number): string | undefined => {
    parts += 1;
    if (parts > maxParts || depth > maxDepth) return undefined;
    if (part === null) return 'null';
    if (typeof part === 'number') return describeNumber(part);
    if (typeof part !== 'object') {
      return typeof part === 'string' || typeof part === 'boolean' ? typeof part : undefined;
    }
    if (Array.isArray(part)) return describeList(part.map((item) => describe(item, depth + 1)));
    if (!isPlainObject(part)) return undefined;
    const fields: string[] = [];
    for (const name of Object.keys(part)) {
      const shape = name === '__proto__' ? undefined : describe(part[name], depth + 1);
      if (shape === undefined) return undefined;
      // With its length before it no name can be taken for a part of another shape.
      fields.push(`${name.length} ${name} ${shape}`);
    }
    return `{${fields.sort().join()}}`;
  };
  return describe(value, 0);
}

/** The same data with nothing in it but its shape. */
export function withoutValues(value: unknown): unknown {
  if (typeof value === 'string') return '';
  if (typeof value === 'number') return Number.isInteger(value) ? 0 : 0.5;
  if (Array.isArray(value)) return value.map(withoutValues);
  if (typeof value !== 'object' || value === null) return value === null ? null : false;
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [name, withoutValues(field)]),
  );
}

function describeNumber(value: number): string | undefined {
  if (!Number.isFinite(value)) return undefined;
  return Number.isInteger(value) ? 'integer' : 'number';
}

/** Which items there are has a meaning, how many and in which order has none. */
function describeList(items: readonly (string | undefined)[]): string | undefined {
  if (!items.every((item) => item !== undefined)) return undefined;
  return `[${[...new Set(items)].sort().join()}]`;
}
