/**
 * Parses arguments of a function as the `salt` command does. An argument that is a scalar, a
 * `[list]` or a `{map}` in YAML becomes that value. Any other argument stays text [salt
 * utils/args.py].
 */

import {
  expandTargetRequest,
  findUndefinedGroup,
  isWireMap,
  keywordNameOf,
  NodegroupLoop,
  type Nodegroups,
  readTargetRequest,
  type TargetExpression,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import {
  JsonError,
  type JsonForm,
  type JsonOf,
  type JsonOptions,
  type JsonValue,
  parseJsonNumbers,
  rawNumber,
  writeJson,
} from '#runtime';
import { jsonNumber } from '#template/python/json.ts';
import { Float } from '#template/python/values.ts';
import { MasterError, type TargetRequest } from '../api/index.ts';
import { isBeyond64Bits, parseYaml } from './yaml.ts';

/** Parsed arguments of a job. */
export interface FunctionArguments {
  readonly arg: readonly WireValue[];
  /**
   * Keyword arguments. The map has no prototype, so it contains only names that the caller typed.
   */
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/**
 * Matches a jid that the YAML parser has read as a number. Minions expect jids as text [salt
 * utils/jid.py].
 */
const jidText = /^-?\d+$/;

/**
 * Separates keyword arguments (`name=value`) from positional arguments, and parses all values.
 * @param inputs - arguments as typed
 * @param noParse - names of keyword arguments. Their values are not parsed
 */
export function parseArguments(
  inputs: readonly string[],
  noParse: readonly string[] = [],
): FunctionArguments {
  const arg: WireValue[] = [];
  const kwarg: Record<string, WireValue> = Object.create(null);
  for (const input of inputs) {
    const name = keywordNameOf(input);
    if (name === undefined) {
      arg.push(jidAsText(parseArgument(input)));
      continue;
    }
    const value = input.slice(name.length + 1).replace(/\n$/, '');
    kwarg[name] = noParse.includes(name) ? value : parseArgument(value);
  }
  return { arg, kwarg };
}

/**
 * Parses one argument. Never fails: an argument that is not valid YAML, or that Salt would not
 * convert, stays text.
 */
export function parseArgument(text: string): WireValue {
  if (isPlainText(text)) return text;
  let value: WireValue;
  try {
    value = text === 'None' ? null : parseYaml(text, { keepsFloats: true });
  } catch {
    return text;
  }
  return keepsText(text, value) ? text : value;
}

function isPlainText(text: string): boolean {
  const trimmed = text.trim();
  if (trimmed === '' || trimmed === '---' || trimmed === '...') return true;
  if (text.includes('_') && /^[\d_]*$/.test(trimmed)) return true;
  return /[\t\r\n]/.test(text);
}

/**
 * Whether Salt uses the text of an argument instead of its YAML value, because the value would lose
 * information.
 */
function keepsText(text: string, value: WireValue): boolean {
  if (text.includes('#')) return typeof value === 'string' || value === null;
  if (Array.isArray(value)) return !text.startsWith('[');
  if (value instanceof Uint8Array) return true;
  if (value instanceof Float) return false;
  if (typeof value === 'object' && value !== null) return !text.startsWith('{');
  return (value === '' && text === '|') || ((value === '' || value === null) && text === '!');
}

function jidAsText(value: WireValue): WireValue {
  if (typeof value !== 'bigint') return value;
  const text = String(value);
  return text.length === 20 && jidText.test(text) ? text : value;
}

/** Maximum nesting depth of a value that a client sends [THREATS A-17]. */
export const maxPlainDepth = 32;

/**
 * Converts a parsed YAML or JSON value. In the result, maps have only string keys, and no
 * prototype, so that keys such as `__proto__` have no special meaning.
 * @throws SyntaxError if the value is nested too deeply, or contains invalid Unicode
 */
export function toPlainValue(value: unknown, depth = 0): WireValue {
  if (depth > maxPlainDepth)
    throw new SyntaxError(`the value is nested more than ${maxPlainDepth} levels deep`);
  if (typeof value === 'string') return checkedText(value);
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  if (value instanceof Uint8Array || value instanceof Float) return value;
  if (Array.isArray(value)) return value.map((item) => toPlainValue(item, depth + 1));
  if (typeof value !== 'object')
    throw new SyntaxError(`values of type ${typeof value} are not supported`);
  const map: WireMap = Object.create(null);
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  for (const [key, item] of entries) map[checkedText(String(key))] = toPlainValue(item, depth + 1);
  return map;
}

function checkedText(text: string): string {
  if (/\p{Cs}/u.test(text)) throw new SyntaxError('the text is not valid Unicode');
  return text;
}

// Converts Salt's values to JSON and back without loss ("marked JSON"). JSON has no form for bytes,
// dates, and maps with other keys than strings. Each is encoded as a map with a single key, the
// mark, such as `$bytes`. An ordinary map that looks like this is encoded with a mark too. An
// integer beyond 2^53 is a `bigint` in memory and a number in JSON.

/**
 * Types of values that JSON lacks. Marked JSON encodes each as a map with a single key such as
 * `$bytes`.
 */
type MarkedValue = Uint8Array | Float | WireDateTime | WireExtension | Map<WireValue, WireValue>;

const mark = /^\$(bytes|int|float|map|datetime|ext)$/;

/**
 * Form of a float without a fraction in marked JSON, which is JSON with marks for types that JSON
 * lacks. `exact`: the `Float` object. `mark`: the map `{"$float": "1.0"}`. `raw`: an object that
 * `JSON.stringify` writes as the number `1.0`.
 */
type FloatForm = 'exact' | 'mark' | 'raw';

/**
 * Maximum nesting depth of marked JSON. It is high enough for the deepest value that Salt permits,
 * even if each level has a mark such as `$bytes` around it.
 */
const maxDepth = 256;

/**
 * Converts a value to marked JSON: a map with a key such as `$bytes` represents a type that JSON
 * lacks.
 * @param value - a wire value, or an object whose members are wire values
 * @param floats - form of floats without a fraction. Default: `raw`
 * @throws JsonError `limit` if the value is nested too deeply
 */
export function toJson(value: WireValue | object, floats: FloatForm = 'raw', depth = 0): JsonValue {
  if (depth > maxDepth) throw new JsonError('limit', `more than ${maxDepth} levels`);
  if (typeof value === 'number') return numberToJson(value);
  if (isBeyond64Bits(value)) return { $int: String(value) };
  if (value === null || typeof value !== 'object') return value;
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString('base64') };
  if (value instanceof Float) return floatToJson(value, floats);
  if (value instanceof WireDateTime) return { $datetime: value.text };
  if (value instanceof WireExtension) {
    return { $ext: [value.code, Buffer.from(value.data).toString('base64')] };
  }
  const inner = (item: WireValue): JsonValue => toJson(item, floats, depth + 1);
  if (Array.isArray(value)) return value.map(inner);
  if (value instanceof Map) return { $map: [...value].map((entry) => entry.map(inner)) };
  const entries = Object.entries(value);
  if (entries.length === 1 && mark.test(entries[0]?.[0] ?? '')) {
    return { $map: entries.map(([key, item]) => [key, inner(item)]) };
  }
  return Object.fromEntries(entries.map(([key, item]) => [key, inner(item)]));
}

function floatToJson(value: Float, form: FloatForm): JsonValue {
  if (form === 'mark') return { $float: String(value) };
  // `JSON.stringify` writes both objects as the number.
  return (form === 'exact' ? value : rawNumber(String(value))) as unknown as JsonValue;
}

/**
 * Returns a value as the text of marked JSON (see {@link toJson}).
 * @throws JsonError `limit` if the value is nested too deeply
 */
export function writeMarkedJson(value: WireValue | object, floats?: FloatForm): string {
  return writeJson(toJson(value, floats));
}

/**
 * Format for writing marked JSON (see {@link toJson}) in steps. Members that are `undefined` are
 * omitted.
 */
export const markedForm: JsonForm = {
  write: (value) => writeMarkedJson((value ?? null) as WireValue), // the caller states this type
  open: (value) => {
    if (typeof value === 'string' || Array.isArray(value)) return value;
    if (value instanceof Map) return { members: [['$map', [...value]]] };
    if (!isWireMap(value as WireValue)) return undefined;
    const members = Object.entries(Object(value)).filter(([, item]) => item !== undefined);
    const isLikeMark = members.length === 1 && mark.test(members[0]?.[0] ?? '');
    return { members: isLikeMark ? [['$map', members]] : members };
  },
  comma: ',',
  colon: ':',
};

/**
 * Parses marked JSON, see {@link toJson}.
 * @throws SyntaxError, TypeError
 */
export function readMarkedJson(text: string): WireValue {
  return fromJson(parseExactJson(text));
}

/**
 * Parses JSON from a trusted source. A float without a fraction becomes a `Float`, and an integer
 * beyond 2^53 a `bigint`.
 * @throws SyntaxError, JsonError
 */
export function parseExactJson(text: string): unknown {
  return parseJsonNumbers(text, jsonNumber);
}

/** Options for reading marked JSON (see {@link toJson}) from a client in steps. */
export const markedJson: JsonOptions<MarkedValue> = {
  maxDepth,
  isStrict: true,
  replaceMap: (map) => unmark(map) as JsonOf<MarkedValue>, // the value that a mark represents
};

/**
 * Encodes a number for marked JSON. Infinities, negative zero, and floats that look like integers
 * in JSON become a map with the key `$float`.
 */
function numberToJson(value: number): JsonValue {
  if (Object.is(value, -0)) return { $float: '-0' };
  const isLarge = Number.isInteger(value) && !Number.isSafeInteger(value);
  return Number.isFinite(value) && !isLarge ? value : { $float: String(value) };
}

/** Matches the text of a float without a fraction, such as `1.0`. */
const wholeFloat = /^-?\d+\.0$/;

/**
 * Maximum length of an integer in text form, in digits. The time to parse it grows faster than its
 * length.
 */
const maxDigits = 1000;

/**
 * Converts JSON to a value. Marks such as `$bytes` in the JSON name the types that JSON lacks, see
 * {@link toJson}.
 * @throws TypeError if a mark has invalid content
 */
export function fromJson(json: unknown, depth = 0): WireValue {
  if (depth > maxDepth)
    throw new TypeError(`the JSON value is nested more than ${maxDepth} levels deep`);
  if (json === null || typeof json === 'boolean' || typeof json === 'string') return json;
  if (typeof json === 'number' || typeof json === 'bigint' || json instanceof Float) return json;
  if (Array.isArray(json)) return json.map((item) => fromJson(item, depth + 1));
  if (typeof json !== 'object') throw new TypeError(`JSON has no values of type ${typeof json}`);
  const map: WireMap = Object.create(null);
  for (const [key, item] of Object.entries(json)) map[key] = fromJson(item, depth + 1);
  return unmark(map);
}

/**
 * Returns the value that a map from JSON represents if its only key is a mark such as `$bytes`.
 * Returns any other map unchanged.
 * @throws TypeError if the content of the mark is invalid
 */
function unmark(map: WireMap): WireValue {
  // Maps may have many keys, so no list of pairs is created.
  const names = Object.keys(map);
  const [name] = names;
  if (names.length !== 1 || name === undefined || !mark.test(name)) return map;
  const content = map[name];
  if (name === '$map' && Array.isArray(content)) return toMap(content);
  if (name === '$ext' && Array.isArray(content)) {
    return new WireExtension(Number(content[0]), Buffer.from(String(content[1]), 'base64'));
  }
  if (typeof content !== 'string')
    throw new TypeError(`the value of the key ${name} must be a string`);
  switch (name) {
    case '$bytes':
      return new Uint8Array(Buffer.from(content, 'base64'));
    case '$int':
      if (content.length > maxDigits)
        throw new TypeError('the number in the key `$int` is too long');
      return BigInt(content);
    case '$float':
      return wholeFloat.test(content) ? new Float(Number(content)) : Number(content);
    case '$datetime':
      return new WireDateTime(content);
    default:
      throw new TypeError(`the value of the key ${name} is not valid`);
  }
}

function toMap(pairs: readonly WireValue[]): WireValue {
  const entries = pairs.map((pair): [WireValue, WireValue] => {
    const [key, item, more] = Array.isArray(pair) ? pair : [];
    if (key === undefined || item === undefined || more !== undefined) {
      throw new TypeError('the value of the key `$map` must be a list of pairs of key and value');
    }
    return [key, item];
  });
  const [only] = entries;
  if (entries.length === 1 && typeof only?.[0] === 'string') {
    const map: WireMap = Object.create(null);
    map[only[0]] = only[1];
    return map;
  }
  return new Map(entries);
}

/**
 * Parses a target, with nodegroups expanded, as it is published to minions.
 * @throws MasterError ERR_BAD_TGT, ERR_NODEGROUP_LOOP, ERR_NODEGROUP_UNKNOWN
 */
export function parseTarget(request: TargetRequest, nodegroups: Nodegroups): TargetExpression {
  const { tgt, tgtType } = request;
  if (tgtType === 'nodegroup' && typeof tgt === 'string' && !Object.hasOwn(nodegroups, tgt)) {
    throw unknownNodegroup(tgt);
  }
  return withMasterError(() => expandTargetRequest(request, nodegroups));
}

/**
 * Checks that a compound target names only defined nodegroups, as Salt's clients do.
 * @throws MasterError ERR_NODEGROUP_UNKNOWN
 */
export function requireNodegroups({ tgt, tgtType }: TargetRequest, nodegroups: Nodegroups): void {
  const name = tgtType === 'compound' ? findUndefinedGroup(tgt, nodegroups) : undefined;
  if (name !== undefined) throw unknownNodegroup(name);
}

function unknownNodegroup(name: string): MasterError {
  return new MasterError('ERR_NODEGROUP_UNKNOWN', `Node group ${name} unavailable`);
}

/**
 * Parses a target without expanding nodegroups, so that an error depends only on the text of the
 * target and reveals nothing about the configuration.
 * @throws MasterError ERR_BAD_TGT
 */
export function parseUnexpanded(request: TargetRequest): TargetExpression {
  return withMasterError(() => readTargetRequest(request));
}

/** Returns the ERR_BAD_TGT error for a target that cannot be used. */
export function badTarget(reason: string, options?: ErrorOptions): MasterError {
  return new MasterError('ERR_BAD_TGT', reason, options);
}

function withMasterError<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof NodegroupLoop) {
      throw new MasterError('ERR_NODEGROUP_LOOP', error.message, { cause: error });
    }
    if (error instanceof SyntaxError) throw badTarget(error.message, { cause: error });
    throw error;
  }
}
