/**
 * Salt's values as JSON and back, without loss: bytes, integers beyond 2^53, maps with other keys
 * than text and dates have no JSON form, so they travel as maps with one marked key. A map that
 * looks like a mark is itself marked.
 */
import {
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
} from '../../minion-protocol/index.ts';

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

const mark = /^\$(bytes|int|float|map|datetime|ext)$/;

/** The JSON form of a value, or of an object whose members are such values. */
export function toJson(value: WireValue | object): Json {
  if (typeof value === 'bigint') return { $int: String(value) };
  if (typeof value === 'number') return numberToJson(value);
  if (value === null || typeof value !== 'object') return value;
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString('base64') };
  if (value instanceof WireDateTime) return { $datetime: value.text };
  if (value instanceof WireExtension) {
    return { $ext: [value.code, Buffer.from(value.data).toString('base64')] };
  }
  if (Array.isArray(value)) return value.map((item: WireValue) => toJson(item));
  if (value instanceof Map) return { $map: [...value].map((entry) => entry.map(toJson)) };
  const entries = Object.entries(value);
  if (entries.length === 1 && mark.test(entries[0]?.[0] ?? '')) {
    return { $map: entries.map(([key, item]) => [key, toJson(item)]) };
  }
  return Object.fromEntries(entries.map(([key, item]) => [key, toJson(item)]));
}

/** JSON has neither infinities nor a negative zero. */
function numberToJson(value: number): Json {
  if (Object.is(value, -0)) return { $float: '-0' };
  return Number.isFinite(value) ? value : { $float: String(value) };
}

/** Levels of JSON: those of Salt's values, each of which may be marked. */
const maxDepth = 256;

/** The value of a JSON form. @throws TypeError when a mark does not hold what it should */
export function fromJson(json: unknown, depth = 0): WireValue {
  if (depth > maxDepth) throw new TypeError('nested too deeply');
  if (json === null || typeof json === 'boolean' || typeof json === 'string') return json;
  if (typeof json === 'number') return json;
  if (Array.isArray(json)) return json.map((item) => fromJson(item, depth + 1));
  if (typeof json !== 'object') throw new TypeError(`no JSON value: ${typeof json}`);
  const entries: [string, unknown][] = Object.entries(json);
  const [first] = entries;
  if (entries.length === 1 && first !== undefined && mark.test(first[0])) {
    return unmark(first[0], first[1], depth + 1);
  }
  const map: WireMap = Object.create(null);
  for (const [key, item] of entries) map[key] = fromJson(item, depth + 1);
  return map;
}

function unmark(name: string, content: unknown, depth: number): WireValue {
  if (name === '$map' && Array.isArray(content)) return unmarkMap(content, depth);
  if (name === '$ext' && Array.isArray(content)) {
    return new WireExtension(Number(content[0]), Buffer.from(String(content[1]), 'base64'));
  }
  if (typeof content !== 'string') throw new TypeError(`the mark ${name} holds no text`);
  switch (name) {
    case '$bytes':
      return new Uint8Array(Buffer.from(content, 'base64'));
    case '$int':
      return BigInt(content);
    case '$float':
      return Number(content);
    case '$datetime':
      return new WireDateTime(content);
    default:
      throw new TypeError(`the mark ${name} holds text`);
  }
}

function unmarkMap(pairs: readonly unknown[], depth: number): WireValue {
  const entries = pairs.map((pair): [WireValue, WireValue] => {
    if (!Array.isArray(pair) || pair.length !== 2) throw new TypeError('the mark $map holds pairs');
    return [fromJson(pair[0], depth + 2), fromJson(pair[1], depth + 2)];
  });
  const [only] = entries;
  if (entries.length === 1 && typeof only?.[0] === 'string') {
    const map: WireMap = Object.create(null);
    map[only[0]] = only[1];
    return map;
  }
  return new Map(entries);
}
