/**
 * A function's arguments as the `salt` command reads them: each is YAML if it is a scalar, a
 * `[list]` or a `{map}`, else the text as it was typed [salt utils/args.py].
 */

import {
  expandTargetRequest,
  findUndefinedGroup,
  isWireMap,
  keywordNameOf,
  NodegroupLoop,
  type Nodegroups,
  pythonStr,
  readTargetRequest,
  type TargetExpression,
  WireDateTime,
  WireExtension,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import {
  type JsonForm,
  type JsonOf,
  type JsonOptions,
  type JsonValue,
  parseJson,
  writeJson,
} from '#runtime';
import { Float } from '#template/python/values.ts';
import { MasterError, type TargetRequest } from '../api/index.ts';
import { isBeyond64Bits, parseYaml } from './yaml.ts';

/** Arguments, ready to be published. */
export interface FunctionArguments {
  readonly arg: readonly WireValue[];
  /** Has no prototype: every name is one that was typed. */
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** What a 64 bit jid looks like as a number: the minion wants it as text [salt utils/jid.py]. */
const jidText = /^-?\d+$/;

/**
 * Separates `name=value` from positional arguments and reads each.
 * @param inputs as typed
 * @param noParse names of keywords whose value is text whatever it looks like
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

/** One argument. Never fails: what is not YAML, or not meant as such, is text. */
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

/** Where Salt prefers the text although it is YAML: nothing must be lost by reading it. */
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

/** Levels that a caller's value may have [THREATS A-17]. */
export const maxPlainDepth = 32;

/**
 * A value of YAML or JSON as one whose maps have text as keys, with no key that means anything to us.
 * @throws SyntaxError for what is too deep, or has text that is no Unicode
 */
export function toPlainValue(value: unknown, depth = 0): WireValue {
  if (depth > maxPlainDepth) throw new SyntaxError(`more than ${maxPlainDepth} levels`);
  if (typeof value === 'string') return checkedText(value);
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  if (value instanceof Uint8Array || value instanceof Float) return value;
  if (Array.isArray(value)) return value.map((item) => toPlainValue(item, depth + 1));
  if (typeof value !== 'object') throw new SyntaxError(`a ${typeof value} is no value of Salt's`);
  const map: WireMap = Object.create(null);
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  for (const [key, item] of entries) map[checkedText(String(key))] = toPlainValue(item, depth + 1);
  return map;
}

function checkedText(text: string): string {
  if (/\p{Cs}/u.test(text)) throw new SyntaxError('text that is not Unicode');
  return text;
}

// Salt's values as JSON and back, without loss: bytes, maps with other keys than text and dates have
// no JSON form, so they travel as maps with one marked key. A map that looks like a mark is itself
// marked. An integer beyond 2^53 is a `bigint` on this side and a number in JSON.

/** What marks stand for, beside what JSON has. */
type MarkedValue = Uint8Array | Float | WireDateTime | WireExtension | Map<WireValue, WireValue>;

const mark = /^\$(bytes|int|float|map|datetime|ext)$/;

/** The JSON form of a value, or of an object whose members are such values. */
export function toJson(value: WireValue | object): JsonValue {
  if (typeof value === 'number') return numberToJson(value);
  if (isBeyond64Bits(value)) return { $int: String(value) };
  if (value === null || typeof value !== 'object') return value;
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value).toString('base64') };
  if (value instanceof Float) return { $float: pythonStr(value) };
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

/** A value, or an object whose members are such values, as text. */
export function writeMarkedJson(value: WireValue | object): string {
  return writeJson(toJson(value));
}

/** The same in steps: members that are not set are left out. */
export const markedForm: JsonForm = {
  write: (value) => writeMarkedJson((value ?? null) as WireValue), // as whoever gives it says
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

/** The value of such a text. @throws SyntaxError, TypeError */
export function readMarkedJson(text: string): WireValue {
  return fromJson(parseJson(text));
}

/** How such a text from a caller is read in steps. */
export const markedJson: JsonOptions<MarkedValue> = {
  maxDepth: 256,
  isStrict: true,
  replaceMap: (map) => unmark(map) as JsonOf<MarkedValue>, // what marks stand for
};

/** JSON has neither infinities nor a negative zero, and a large float looks like an integer. */
function numberToJson(value: number): JsonValue {
  if (Object.is(value, -0)) return { $float: '-0' };
  const isLarge = Number.isInteger(value) && !Number.isSafeInteger(value);
  return Number.isFinite(value) && !isLarge ? value : { $float: String(value) };
}

/** A float without a fraction, as Python writes it. */
const wholeFloat = /^-?\d+\.0$/;

/** Characters of an integer whose form is text; what reads it takes longer for each. */
const maxDigits = 1000;

/** Levels of JSON: those of Salt's values, each of which may be marked. */
const maxDepth = 256;

/** The value of a JSON form. @throws TypeError when a mark does not hold what it should */
export function fromJson(json: unknown, depth = 0): WireValue {
  if (depth > maxDepth) throw new TypeError('nested too deeply');
  if (json === null || typeof json === 'boolean' || typeof json === 'string') return json;
  if (typeof json === 'number' || typeof json === 'bigint') return json;
  if (Array.isArray(json)) return json.map((item) => fromJson(item, depth + 1));
  if (typeof json !== 'object') throw new TypeError(`no JSON value: ${typeof json}`);
  const map: WireMap = Object.create(null);
  for (const [key, item] of Object.entries(json)) map[key] = fromJson(item, depth + 1);
  return unmark(map);
}

/** What a map stands for whose members are read. @throws TypeError */
function unmark(map: WireMap): WireValue {
  const entries = Object.entries(map);
  const [first] = entries;
  if (entries.length !== 1 || first === undefined || !mark.test(first[0])) return map;
  const [name, content] = first;
  if (name === '$map' && Array.isArray(content)) return toMap(content);
  if (name === '$ext' && Array.isArray(content)) {
    return new WireExtension(Number(content[0]), Buffer.from(String(content[1]), 'base64'));
  }
  if (typeof content !== 'string') throw new TypeError(`the mark ${name} holds no text`);
  switch (name) {
    case '$bytes':
      return new Uint8Array(Buffer.from(content, 'base64'));
    case '$int':
      if (content.length > maxDigits) throw new TypeError('the mark $int holds a long number');
      return BigInt(content);
    case '$float':
      return wholeFloat.test(content) ? new Float(Number(content)) : Number(content);
    case '$datetime':
      return new WireDateTime(content);
    default:
      throw new TypeError(`the mark ${name} holds text`);
  }
}

function toMap(pairs: readonly WireValue[]): WireValue {
  const entries = pairs.map((pair): [WireValue, WireValue] => {
    const [key, item, more] = Array.isArray(pair) ? pair : [];
    if (key === undefined || item === undefined || more !== undefined) {
      throw new TypeError('the mark $map holds pairs');
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
 * Takes a target from a caller, in the form in which it is published.
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
 * Refuses a compound target that names a nodegroup which is not defined, as Salt's clients do.
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
 * The same with nodegroups as they were named: an error depends on the caller's words alone.
 * @throws MasterError ERR_BAD_TGT
 */
export function parseUnexpanded(request: TargetRequest): TargetExpression {
  return withMasterError(() => readTargetRequest(request));
}

/** What callers are told of a target that cannot be used. */
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
