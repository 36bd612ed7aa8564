/**
 * Salt's `subdict_match` [salt/utils/data.py], translated to TypeScript literally and without any
 * optimisation. The compiled matcher is compared with it. Keys are text; values are text, lists and
 * maps.
 */

/** A value of grains or pillar, as far as the comparison goes. */
export type Plain = string | readonly Plain[] | { readonly [key: string]: Plain };

type PlainMap = { readonly [key: string]: Plain };

/** Function that returns whether a value matches a pattern. */
export type PlainTest = (pattern: string, text: string) => boolean;

function isMap(value: Plain): value is PlainMap {
  return typeof value === 'object' && !Array.isArray(value);
}

function str(value: Plain, isInside = false): string {
  if (typeof value === 'string') return isInside ? `'${value}'` : value;
  if (isMap(value)) {
    const entries = Object.entries(value);
    return `{${entries.map(([key, item]) => `'${key}': ${str(item, true)}`).join(', ')}}`;
  }
  return `[${value.map((item) => str(item, true)).join(', ')}]`;
}

function traverse(data: PlainMap, path: readonly string[]): Plain {
  let value: Plain = data;
  for (const key of path) {
    if (Array.isArray(value)) {
      const list: readonly Plain[] = value;
      const found = list.filter(isMap).find((item) => Object.hasOwn(item, key))?.[key];
      const isNumber = /^\d+$/.test(key);
      const next = isNumber ? list[Number(key)] : found;
      if (next === undefined) return {};
      value = next;
    } else if (isMap(value)) {
      const next: Plain | undefined = Object.hasOwn(value, key) ? value[key] : undefined;
      if (next === undefined) return {};
      value = next;
    } else {
      return {};
    }
  }
  return value;
}

/** Salt's function `subdict_match`. */
export function subdictMatch(
  data: PlainMap,
  expression: string,
  delimiter: string,
  fits: PlainTest,
): boolean {
  const splits = expression.split(delimiter);
  for (let index = splits.length - 1; index > 0; index -= 1) {
    const key = splits.slice(0, index).join(delimiter);
    const isAll = key === '*';
    const wanted = isAll ? expression : splits.slice(index).join(delimiter);
    const match = isAll ? data : traverse(data, key.split(delimiter));
    if (isMap(match)) {
      if (Object.keys(match).length > 0 && dictMatch(match, wanted, fits)) return true;
    } else if (typeof match !== 'string') {
      for (const member of match) {
        if (isMap(member) && dictMatch(member, wanted, fits)) return true;
        if (fits(wanted, str(member))) return true;
      }
    } else if (fits(wanted, match)) {
      return true;
    }
  }
  return false;
}

function dictMatch(target: PlainMap, wanted: string, fits: PlainTest): boolean {
  const isWild = wanted.startsWith('*:');
  const pattern = isWild ? wanted.slice(2) : wanted;
  if (pattern === '*' || Object.hasOwn(target, pattern)) return true;
  if (subdictMatch(target, pattern, ':', fits)) return true;
  if (!isWild) return false;
  for (const value of Object.values(target)) {
    if (isMap(value)) {
      if (dictMatch(value, pattern, fits)) return true;
    } else if (typeof value !== 'string') {
      if (value.some((item) => fits(pattern, str(item)))) return true;
    } else if (fits(pattern, value)) {
      return true;
    }
  }
  return false;
}
