/**
 * One YAML document as Salt reads it: YAML 1.1 with PyYAML's resolvers (which differ from the
 * standard's) and Salt's own meaning of leading zeros and dates
 * [PyYAML resolver.py, constructor.py; salt utils/yamlloader.py].
 */

import {
  Composer,
  CST,
  type Document,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  type Node,
  type ParsedNode,
  Parser,
  Scalar,
  type ScalarTag,
  type Tags,
  visit,
} from 'yaml';
import type { WireMap, WireValue } from '#minion-protocol';
import { integerOf64Bits } from '#runtime';
import { Float } from '#template/python/values.ts';

// YAML 1.2 that libyaml, which Salt uses, refuses: colons at the edge of a value inside `[…]` and
// `{…}` (`[::1]`, `[a:]`, `[: 1]`), anchors that are not words (`&& ls`), and unpaired surrogate
// escapes (`"\ud83d\ude00"`).

/** Whether libyaml would stop somewhere in this document. @param text what was parsed */
function isBeyondLibyaml(document: Document.Parsed, text: string): boolean {
  let isRefused = false;
  visit(document, {
    Node(place, node, path) {
      isRefused ||= hasRefusedAnchor(node);
      if (isScalar(node) && node.type === Scalar.QUOTE_DOUBLE) {
        isRefused ||= halfCharacter.test(sourceOf(node, text));
      }
      if (isScalar(node) && node.type === Scalar.PLAIN && path.length > 1) {
        isRefused ||= hasRefusedColon(node, place === 'key', text);
      }
      return isRefused ? visit.BREAK : undefined;
    },
  });
  return isRefused;
}

/** An escape of a surrogate, behind an even number of backslashes. */
const halfCharacter = /(?<!\\)(?:\\\\)*\\u[dD][89a-fA-F]/;

function sourceOf({ range }: Scalar, text: string): string {
  return range === null || range === undefined ? '' : text.slice(range[0], range[1]);
}

function hasRefusedAnchor(node: Node): boolean {
  return 'anchor' in node && node.anchor !== undefined && !/^[\w-]+$/.test(node.anchor);
}

function hasRefusedColon(scalar: Scalar, isKey: boolean, text: string): boolean {
  const source = scalar.source ?? '';
  if (source.startsWith(':')) return true;
  return isKey && (source === '' || endsBeforeIndicator(scalar, text));
}

/** Whether the key's colon touches what follows, as in `{a:}` and `[a:, b]`. */
function endsBeforeIndicator(key: Scalar, text: string): boolean {
  const end = key.range?.[1];
  return end !== undefined && /^:[,[\]{}]/.test(text.slice(end, end + 2));
}

// Limits, checked on tokens before values are created.

/** How much YAML is read, and whether all of YAML. */
export interface YamlLimits {
  /** Values, keys among them. Default 1,000,000. */
  readonly maxValues?: number;
  /** Levels of lists and maps. Default 64. */
  readonly maxDepth?: number;
  /**
   * Takes neither anchors, aliases nor tags: what JSON has too. Integers beyond 64 bits become
   * their decimal text. Default false.
   */
  readonly isPlain?: boolean;
  /** Reads floats without a fraction as `Float`. Default: as numbers. */
  readonly keepsFloats?: boolean;
}

/** More than a request to a minion may have. */
const usualLimits: Required<YamlLimits> = {
  maxValues: 1_000_000,
  maxDepth: 64,
  isPlain: false,
  keepsFloats: false,
};

/** What begins a value or a key. */
const valueTypes: ReadonlySet<CST.TokenType | null> = new Set<CST.TokenType>([
  'alias',
  'block-scalar-header',
  'double-quoted-scalar',
  'flow-map-start',
  'flow-seq-start',
  'map-value-ind',
  'scalar',
  'seq-item-ind',
  'single-quoted-scalar',
]);
const markTypes: ReadonlySet<CST.TokenType | null> = new Set<CST.TokenType>([
  'alias',
  'anchor',
  'tag',
]);

/**
 * Reading a document is recursive, and a stack that is nearly full ends the process where V8
 * compiles a regular expression then: the depth is bounded before.
 * @throws SyntaxError at the first thing that is wrong
 */
function* boundedTokens(text: string, given: YamlLimits): Generator<CST.Token, void, void> {
  const limits = { ...usualLimits, ...given };
  const parser = new Parser();
  const lexemes = new LexemeLimits(limits);
  for (const lexeme of new Lexer().lex(text)) {
    lexemes.check(lexeme);
    for (const token of parser.next(lexeme)) yield checked(token, limits.maxDepth);
  }
  for (const token of parser.end()) yield checked(token, limits.maxDepth);
}

/** What opens levels within one line or one flow, and how many values there are. */
class LexemeLimits {
  readonly #limits: Required<YamlLimits>;
  #values = 0;
  #flows = 0;
  #indicators = 0;

  constructor(limits: Required<YamlLimits>) {
    this.#limits = limits;
  }

  check(lexeme: string): void {
    const type = CST.tokenType(lexeme);
    const { maxValues, maxDepth, isPlain } = this.#limits;
    if (valueTypes.has(type)) this.#values += 1;
    // A pair is its key, its colon and its value.
    if (this.#values > 3 * maxValues) throw tooMany(maxValues);
    if (isPlain && markTypes.has(type)) {
      throw new SyntaxError('expected plain YAML: no anchor, alias or tag');
    }
    if (type === 'flow-seq-start' || type === 'flow-map-start') this.#flows += 1;
    else if (type === 'flow-seq-end' || type === 'flow-map-end') this.#flows -= 1;
    else if (type === 'seq-item-ind' || type === 'explicit-key-ind') this.#indicators += 1;
    else if (type === 'newline') this.#indicators = 0;
    if (this.#flows > maxDepth || this.#indicators > maxDepth) throw tooDeep();
  }
}

/** Levels without recursion. @throws SyntaxError */
function checked(token: CST.Token, maxDepth: number): CST.Token {
  if (token.type === 'error') throw new SyntaxError(token.message);
  const waiting: [token: CST.Token | null | undefined, depth: number][] = [[token, 0]];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [found, depth] = next;
    if (depth > maxDepth) throw tooDeep();
    for (const child of childrenOf(found)) waiting.push([child, depth + 1]);
  }
  return token;
}

function tooMany(maxValues: number): SyntaxError {
  return new SyntaxError(`more than ${maxValues} values`);
}

function tooDeep(): SyntaxError {
  return new SyntaxError('the text is nested too deeply');
}

function childrenOf(token: CST.Token | null | undefined): (CST.Token | null | undefined)[] {
  if (token?.type === 'document') return [token.value];
  if (token === null || token === undefined || !('items' in token)) return [];
  return token.items.flatMap(({ key, value }) => [key, value]);
}

const integerForm =
  /^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$/;
const floatForm =
  /^(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/;
const booleanForm =
  /^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$/;

/** Characters of an integer: reading more takes longer for each. */
const maxDigits = 1000;

const core = 'tag:yaml.org,2002:';
const scalarTags: readonly ScalarTag[] = [
  { tag: `${core}null`, default: true, test: /^(?:~|null|Null|NULL|)$/, resolve: () => null },
  { tag: `${core}bool`, default: true, test: booleanForm, resolve: toBoolean },
  { tag: `${core}int`, default: true, test: integerForm, resolve: toInteger },
  { tag: `${core}float`, default: true, test: floatForm, resolve: toFloat },
];
const pythonTags: Tags = [
  'merge',
  'binary',
  { tag: `${core}str`, default: 'key', test: /^=$/, resolve: asText },
  { tag: `${core}value`, default: true, test: /^(?:=|<<)$/, resolve: refuse },
  ...scalarTags,
  // Without a form: for a value whose tag is written out, such as `!!float 5`.
  ...scalarTags.map(({ tag, resolve }) => ({ tag, resolve })),
  { tag: `${core}timestamp`, resolve: asText },
];

const timestampForm =
  /^(?:\d{4}-\d\d-\d\d|\d{4}-\d\d?-\d\d?(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d(?:\.\d*)?(?:[ \t]*(?:Z|[-+]\d\d?(?::\d\d)?))?)$/;
const otherForm = /^(?:~|null|Null|NULL||<<|=)$/;

/** Whether PyYAML reads this text, written without quotes, as text and nothing else. */
export function isPlainYamlText(text: string): boolean {
  const forms = [integerForm, floatForm, booleanForm, timestampForm, otherForm];
  return !forms.some((form) => form.test(text));
}

/** What PyYAML's reader does not take at all. */
const unreadable = /(?![\t\r\n\x85])[\p{Cc}\ufffe\uffff]/u;

/** A line break to YAML 1.1. */
const nextLine = '\x85';

/**
 * Reads one document. Maps whose keys are all text are plain objects without a prototype, others
 * are a `Map`.
 * @throws Error when the text is not one YAML document with values that Salt knows
 */
export function parseYaml(text: string, limits: YamlLimits = {}): WireValue {
  if (unreadable.test(text)) throw new Error('the text has control characters');
  const lines = text.replaceAll(nextLine, '\n');
  const document = compose(lines, limits);
  const [complaint] = [...document.errors, ...document.warnings];
  if (complaint !== undefined) throw complaint;
  if (isBeyondLibyaml(document, lines)) throw new SyntaxError('libyaml does not take it');
  checkNodes(document.contents, limits);
  if (limits.keepsFloats) visit(document, { Scalar: keepFloat });
  return toWireValue(document.toJS({ mapAsMap: true }));
}

/** The package's own check of keys compares each with all others. */
const composing = {
  version: '1.1',
  schema: 'failsafe',
  customTags: pythonTags,
  uniqueKeys: false,
  prettyErrors: false,
} as const;

function compose(text: string, limits: YamlLimits): Document.Parsed {
  const composer = new Composer<ParsedNode>(composing);
  const [document, more] = composer.compose(boundedTokens(text, limits), true, text.length);
  if (document === undefined || more !== undefined) throw new SyntaxError('expected one document');
  return document;
}

/** Requires that no map has a key twice, bounds the values, and makes integers fit the wire. */
function checkNodes(root: unknown, { maxValues, isPlain = false }: YamlLimits): void {
  let count = 0;
  const waiting = [root];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    count += 1;
    if (maxValues !== undefined && count > maxValues) throw tooMany(maxValues);
    if (isPlain && isScalar(node) && typeof node.value === 'bigint') {
      node.value = integerOf64Bits(node.value);
    }
    if (isSeq(node)) for (const item of node.items) waiting.push(item);
    if (!isMap(node)) continue;
    const keys = new Set<unknown>();
    for (const { key, value } of node.items) {
      if (isScalar(key) && keys.size === keys.add(pythonKey(key.value)).size) {
        throw new SyntaxError('a key stands there twice');
      }
      waiting.push(value);
    }
  }
}

/** Whether a value is an integer that MessagePack has no form for. */
export function isBeyond64Bits(value: unknown): boolean {
  return typeof value === 'bigint' && (value < -(2n ** 63n) || value >= 2n ** 64n);
}

/** Replaces a whole number that is written as a float. */
function keepFloat(_place: unknown, node: Scalar): void {
  const { value, source } = node;
  const isWritten = node.tag === undefined && source !== undefined && floatForm.test(source);
  if (isWritten && Number.isSafeInteger(value)) node.value = new Float(Number(value));
}

function toWireValue(value: unknown): WireValue {
  if (Array.isArray(value)) return value.map(toWireValue);
  if (value instanceof Map) return toWireMap([...value]);
  if (value instanceof Uint8Array) return new Uint8Array(value);
  if (isPlainScalar(value) || value instanceof Float) return value;
  throw new TypeError(`no value of Salt's: ${typeof value}`);
}

function isPlainScalar(value: unknown): value is null | boolean | number | bigint | string {
  return value === null || ['boolean', 'number', 'bigint', 'string'].includes(typeof value);
}

function toWireMap(entries: readonly [unknown, unknown][]): WireValue {
  const read = entries.map(([key, item]): [WireValue, WireValue] => {
    if (!isPlainScalar(key) && !(key instanceof Float)) {
      throw new TypeError('a list or a map cannot be a key');
    }
    return [key, toWireValue(item)];
  });
  const map: WireMap = Object.create(null);
  for (const [key, item] of read) {
    if (typeof key !== 'string') return new Map(read);
    map[key] = item;
  }
  return map;
}

/** In Python, `1`, `1.0` and `True` are the same key. */
function pythonKey(value: unknown): unknown {
  return typeof value === 'boolean' ? Number(value) : value;
}

function asText(text: string): string {
  return text;
}

function toBoolean(text: string): boolean {
  switch (text.toLowerCase()) {
    case 'yes':
    case 'true':
    case 'on':
      return true;
    case 'no':
    case 'false':
    case 'off':
      return false;
    default:
      throw new SyntaxError('not a boolean');
  }
}

function toInteger(text: string): number | bigint {
  if (text.length > maxDigits) throw new SyntaxError('a number with very many digits');
  const digits = dropLeadingZeros(text).replaceAll('_', '');
  const magnitude = toMagnitude(digits.replace(/^[-+]/, ''));
  const value = digits.startsWith('-') ? -magnitude : magnitude;
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** Salt reads `010` as ten, but leaves a signed one to PyYAML, for which it is octal. */
function dropLeadingZeros(text: string): string {
  if (text === '0' || !text.startsWith('0') || /^0[bx]/.test(text)) return text;
  return text.replace(/^0+/, '') || '0';
}

function toMagnitude(digits: string): bigint {
  if (digits === '') throw new SyntaxError('no digits');
  if (/^0[bx]/.test(digits)) return BigInt(digits);
  if (digits.includes(':')) {
    return digits.split(':').reduce((sum, part) => sum * 60n + BigInt(part), 0n);
  }
  return digits.startsWith('0') ? BigInt(`0o${digits}`) : BigInt(digits);
}

function toFloat(text: string): number {
  const digits = text.replaceAll('_', '').toLowerCase();
  const sign = digits.startsWith('-') ? -1 : 1;
  const magnitude = digits.replace(/^[-+]/, '');
  if (magnitude === '.inf') return sign * Number.POSITIVE_INFINITY;
  if (magnitude === '.nan') return Number.NaN;
  const value = magnitude.split(':').reduce((sum, part) => sum * 60 + Number(part), 0);
  if (Number.isNaN(value)) throw new SyntaxError('not a number');
  return sign * value;
}

function refuse(): never {
  throw new SyntaxError('= and << have no meaning as a value');
}
