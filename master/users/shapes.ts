import { plainNumber, type WireValue } from '#minion-protocol';
import { isMap } from '#runtime';

/** Maximum number of values that are examined in the data of one request. */
const maxParts = 200;
const maxDepth = 16;

/**
 * Returns a text that describes the structure of data. Data that differ only in their strings and
 * numbers have the same shape. Returns `undefined` if the data cannot be represented in JSON or are
 * too large.
 */
export function shapeOf(value: WireValue | undefined): string | undefined {
  let parts = 0;
  const describe = (part: unknown, depth: number): string | undefined => {
    parts += 1;
    if (parts > maxParts || depth > maxDepth) return undefined;
    if (part === null) return 'null';
    const number = plainNumber(part);
    if (typeof number === 'number') return describeNumber(number);
    if (typeof part !== 'object') {
      return typeof part === 'string' || typeof part === 'boolean' ? typeof part : undefined;
    }
    if (Array.isArray(part)) return describeList(part.map((item) => describe(item, depth + 1)));
    if (!isMap(part)) return undefined;
    const fields: string[] = [];
    for (const name of Object.keys(part)) {
      const shape = name === '__proto__' ? undefined : describe(part[name], depth + 1);
      if (shape === undefined) return undefined;
      // The length of the name precedes the name, so that different shapes never have the same
      // text.
      fields.push(`${name.length} ${name} ${shape}`);
    }
    return `{${fields.sort().join()}}`;
  };
  return describe(value, 0);
}

/**
 * Returns the data with each value replaced by a neutral one, for example an empty string. The
 * structure stays the same.
 */
export function withoutValues(given: unknown): unknown {
  const value = plainNumber(given);
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

/**
 * Returns the shape of a list: the distinct shapes of its items. The number and order of the items
 * are ignored.
 */
function describeList(items: readonly (string | undefined)[]): string | undefined {
  if (!items.every((item) => item !== undefined)) return undefined;
  return `[${[...new Set(items)].sort().join()}]`;
}
