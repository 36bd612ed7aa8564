/**
 * YAML 1.1 as PyYAML writes values for Salt, and what plain scalars mean to it
 * [salt/utils/yamldumper.py].
 */

import { PythonException } from './exceptions.ts';
import type { RecursionGuard, UsageMeter } from './limits.ts';
import {
  addIntegers,
  floatRepr,
  type Integer,
  integerText,
  multiplyIntegers,
  negateInteger,
  parseFloatText,
  parseInteger,
} from './numbers.ts';
import { sortValues } from './operators.ts';
import {
  Bytes,
  Dict,
  Float,
  isInteger,
  isPyObject,
  PySet,
  str,
  Tuple,
  type Value,
} from './values.ts';

// Quoted scalars as PyYAML's emitter writes them, without folding lines.

const short: Readonly<Record<string, string>> = {
  '\0': '\\0',
  '\x07': '\\a',
  '\b': '\\b',
  '\t': '\\t',
  '\n': '\\n',
  '\v': '\\v',
  '\f': '\\f',
  '\r': '\\r',
  '\x1b': '\\e',
  '"': '\\"',
  '\\': '\\\\',
  '\x85': '\\N',
  '\xa0': '\\_',
  '\u2028': '\\L',
  '\u2029': '\\P',
};

/** A text between double quotes. With `unicode`, characters beyond ASCII stay as they are. */
export function doubleQuoted(text: string, unicode = false): string {
  let quoted = '';
  for (const character of text) quoted += escapeCharacter(character, unicode);
  return `"${quoted}"`;
}

/** A character as it stands between double quotes. */
function escapeCharacter(character: string, unicode: boolean): string {
  if (unicode && character === '\xa0') return character;
  const known = short[character];
  if (known !== undefined) return known;
  if (character >= ' ' && character <= '~') return character;
  if (unicode && /[\xa1-\ud7ff\ue000-\ufefe\uff00-\ufffd]/.test(character)) return character;
  // No character beyond the basic plane is taken for printable.
  return escapeSequence(character);
}

/** A character as an escape between double quotes. */
function escapeSequence(character: string): string {
  const known = short[character];
  if (known !== undefined) return known;
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16).toUpperCase();
  if (code <= 0xff) return `\\x${hex.padStart(2, '0')}`;
  return code <= 0xffff ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
}

/** A text between single quotes: every line break is written twice. */
export function singleQuoted(text: string): string {
  const doubled = text.replaceAll("'", "''");
  return `'${doubled.replace(/[\n\x85\u2028\u2029]+/g, (breaks) => (breaks.startsWith('\n') ? '\n' : '') + breaks)}'`;
}

// The line that is being written [yaml/emitter.py].

const bestWidth = 80;
const isBreak = (character: string): boolean => /[\n\x85\u2028\u2029]/.test(character);

/** Writes scalars and indicators, and knows the column. */
class YamlEmitter {
  readonly #meter: UsageMeter;
  #text = '';
  #column = 0;
  /** Whether the last thing written was white space. */
  #isSpaced = true;
  /** Whether nothing but indicators of blocks stands on the line. */
  #isIndented = true;
  indent = 0;

  constructor(meter: UsageMeter) {
    this.#meter = meter;
  }

  get text(): string {
    return this.#text;
  }

  get isWide(): boolean {
    return this.#column > bestWidth;
  }

  get isIndented(): boolean {
    return this.#isIndented;
  }

  indicator(
    text: string,
    options: { spaced?: boolean; needsSpace?: boolean; indents?: boolean } = {},
  ): void {
    const { spaced = false, needsSpace = false, indents = false } = options;
    this.#write(this.#isSpaced || !needsSpace ? text : ` ${text}`);
    this.#isSpaced = spaced;
    this.#isIndented = this.#isIndented && indents;
  }

  newLine(): void {
    const { indent } = this;
    const isThere =
      this.#isIndented && (this.#column < indent || (this.#column === indent && this.#isSpaced));
    if (!isThere) this.#lineBreak('\n');
    if (this.#column < indent) {
      this.#write(' '.repeat(indent - this.#column));
      this.#isSpaced = true;
    }
  }

  /** Lines below an indicator `|`. */
  literal(lines: readonly string[]): void {
    this.indicator('|', { needsSpace: true });
    for (const line of lines) {
      this.newLine();
      this.#write(line);
      this.#endsWithText();
    }
  }

  plain(text: string, canSplit: boolean): void {
    if (text === '') return;
    if (!this.#isSpaced) this.#write(' ');
    this.#endsWithText();
    for (const [index, run] of runsOf(text)) {
      const isFold = run === ' ' && canSplit && this.isWide && index > 0;
      if (!isFold) this.#write(run);
      else {
        this.newLine();
        this.#endsWithText();
      }
    }
  }

  single(text: string, canSplit: boolean): void {
    this.indicator("'", { needsSpace: true });
    for (const [index, run] of runsOf(text)) {
      const isInside = index > 0 && index + run.length < text.length;
      if (run === ' ' && canSplit && this.isWide && isInside) this.newLine();
      else if (isBreak(run.charAt(0))) this.#breaks(run);
      else this.#write(run.replaceAll("'", "''"));
    }
    this.indicator("'");
  }

  #breaks(run: string): void {
    if (run.startsWith('\n')) this.#lineBreak('\n');
    for (const character of run) this.#lineBreak(character);
    this.newLine();
  }

  double(text: string, canSplit: boolean): void {
    this.indicator('"', { needsSpace: true });
    const all = Array.from(text);
    let isPending = '';
    for (const [index, character] of all.entries()) {
      const escaped = escapeCharacter(character, true);
      const isEscape = escaped !== character;
      if (isEscape) {
        this.#write(isPending + escaped);
        isPending = '';
      }
      const canFold = index > 0 && index < all.length - 1 && (character === ' ' || isEscape);
      if (canFold && canSplit && this.#column + isPending.length > bestWidth) {
        this.#write(`${isPending}\\`);
        isPending = '';
        this.newLine();
        this.#endsWithText();
        const next = isEscape ? all[index + 1] : character;
        if (next === ' ') this.#write('\\');
      }
      if (!isEscape) isPending += character;
    }
    this.#write(isPending);
    this.indicator('"');
  }

  /** Between double quotes as libyaml writes it: folded at blanks alone. */
  libyamlDouble(text: string, canSplit: boolean): void {
    this.indicator('"', { needsSpace: true });
    const all = Array.from(text);
    for (const [index, character] of all.entries()) {
      const isLone = character === ' ' && all[index - 1] !== ' ';
      const isInside = index > 0 && index < all.length - 1;
      if (isLone && isInside && canSplit && this.isWide) {
        this.newLine();
        this.#endsWithText();
        if (all[index + 1] === ' ') this.#write('\\');
      } else {
        this.#write(escapeCharacter(character, true));
      }
    }
    this.indicator('"');
  }

  #endsWithText(): void {
    this.#isSpaced = false;
    this.#isIndented = false;
  }

  #lineBreak(character: string): void {
    this.#write(character);
    this.#column = 0;
    this.#isSpaced = true;
    this.#isIndented = true;
  }

  #write(text: string): void {
    this.#meter.text(text.length);
    this.#text += text;
    this.#column += text.length;
  }
}

/** A text in runs of spaces, of line breaks, and of all else, with the place of each. */
function* runsOf(text: string): Generator<readonly [number, string]> {
  for (const match of text.matchAll(/ +|[\n\x85\u2028\u2029]+|[^ \n\x85\u2028\u2029]+/g)) {
    yield [match.index, match[0]];
  }
}

// Scalars as PyYAML's representer writes them.

/** The text of a scalar that is no string; undefined for anything else. */
export function representScalar(value: Value): string | undefined {
  if (value === null) return 'null';
  if (typeof value === 'boolean') return String(value);
  if (isInteger(value)) return integerText(value);
  return value instanceof Float ? representFloat(value.value) : undefined;
}

/** YAML 1.1 wants a point before the exponent. */
function representFloat(value: number): string {
  if (Number.isNaN(value)) return '.nan';
  if (!Number.isFinite(value)) return value > 0 ? '.inf' : '-.inf';
  const text = floatRepr(value);
  return text.includes('.') || !text.includes('e') ? text : text.replace('e', '.0e');
}

// What a plain scalar means in YAML 1.1 as PyYAML reads it, with Salt's changes.

const bool = /^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$/;
const nothing = /^(?:~|null|Null|NULL|)$/;
const integer =
  /^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$/;
const float =
  /^(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/;
const timestamp =
  /^(?:\d{4}-\d{2}-\d{2}|\d{4}-\d\d?-\d\d?(?:[Tt]|[ \t]+)\d\d?:\d{2}:\d{2}(?:\.\d*)?(?:[ \t]*(?:Z|[-+]\d\d?(?::\d{2})?))?)$/;

/** The tags that a scalar can have, without `tag:yaml.org,2002:`. */
export type ScalarTag = 'null' | 'bool' | 'int' | 'float' | 'merge' | 'value' | 'timestamp' | 'str';

/** The tag of a scalar that is written plain and without one. */
export function resolveTag(text: string): ScalarTag {
  if (nothing.test(text)) return 'null';
  if (bool.test(text)) return 'bool';
  if (integer.test(text)) return 'int';
  if (float.test(text)) return 'float';
  if (text === '<<') return 'merge';
  if (text === '=') return 'value';
  return timestamp.test(text) ? 'timestamp' : 'str';
}

/** The value of a scalar with a tag; undefined where its text does not fit, or nobody knows the tag. */
export function constructScalar(tag: string, text: string): Value | undefined {
  switch (tag) {
    case 'str':
    case 'timestamp':
    case 'python/unicode':
      return text;
    case 'null':
      return null;
    case 'bool':
      return bools[text.toLowerCase()];
    case 'int':
      return constructInteger(text);
    case 'float':
      return constructFloat(text);
    case 'binary':
      return constructBinary(text);
  }
  return undefined;
}

const bools: Readonly<Record<string, boolean>> = {
  yes: true,
  no: false,
  true: true,
  false: false,
  on: true,
  off: false,
};

/** Salt takes leading zeros away, so that a mode like 0755 stays what it looks like. */
function constructInteger(text: string): Integer | undefined {
  const isOctalLike = text.startsWith('0') && !/^0[bx]/.test(text) && text !== '0';
  const plain = (isOctalLike ? text.replace(/^0+/, '') || '0' : text).replaceAll('_', '');
  const isNegative = plain.startsWith('-');
  const size = constructSize(plain.replace(/^[-+]/, ''));
  return size === undefined || !isNegative ? size : negateInteger(size);
}

function constructSize(digits: string): Integer | undefined {
  if (digits === '0') return 0;
  if (digits.startsWith('0b')) return parseInteger(digits.slice(2), 2);
  if (digits.startsWith('0x')) return parseInteger(digits.slice(2), 16);
  if (digits.startsWith('0')) return parseInteger(digits, 8);
  let total: Integer | undefined = 0;
  for (const part of digits.split(':')) {
    const number = parseInteger(part);
    total =
      number === undefined || total === undefined
        ? undefined
        : addIntegers(multiplyIntegers(total, 60), number);
  }
  return total;
}

function constructFloat(text: string): Float | undefined {
  const plain = text.replaceAll('_', '').toLowerCase();
  const sign = plain.startsWith('-') ? -1 : 1;
  const size = plain.replace(/^[-+]/, '');
  if (size === '.inf') return new Float(sign * Number.POSITIVE_INFINITY);
  if (size === '.nan') return new Float(Number.NaN);
  let total = 0;
  for (const part of size.split(':')) {
    const number = parseFloatText(part);
    if (number === undefined) return undefined;
    total = total * 60 + number;
  }
  return new Float(sign * total);
}

function constructBinary(text: string): Bytes | undefined {
  const plain = text.replaceAll(/[^A-Za-z0-9+/=]/g, '');
  return plain.length % 4 === 0 ? new Bytes(Buffer.from(plain, 'base64')) : undefined;
}

// How PyYAML's emitter would write a text.

/** Where a scalar stands. */
interface ScalarPosition {
  readonly isInFlow: boolean;
  readonly isKey: boolean;
}

const breaks = /[\n\x85\u2028\u2029]/;
const special = /[^\n\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]/u;
const blockIndicators =
  /^(?:---|\.\.\.)|^[#,[\]{}&*!|>'"%@`]|^[?:-](?=[\0 \t\r\n\x85\u2028\u2029]|$)|:(?=[\0 \t\r\n\x85\u2028\u2029]|$)|[\0 \t\r\n\x85\u2028\u2029]#/;
const flowIndicators = /^[?:]|[,?[\]{}:]/;

/** Plain, in single or in double quotes. */
function scalarStyle(
  text: string,
  { isInFlow, isKey }: ScalarPosition,
): 'plain' | 'single' | 'double' {
  if (text === '') return 'single';
  const isMultiline = breaks.test(text);
  const isHard = special.test(text) || / [\n\x85\u2028\u2029]/.test(text);
  if (isHard) return 'double';
  if (isPlain(text, isInFlow, isMultiline) && resolveTag(text) === 'str') return 'plain';
  if (/[\n\x85\u2028\u2029] /.test(text) || (isKey && isMultiline)) return 'double';
  return 'single';
}

function isPlain(text: string, isInFlow: boolean, isMultiline: boolean): boolean {
  if (isMultiline || /^ | $/.test(text) || blockIndicators.test(text)) return false;
  return !isInFlow || !flowIndicators.test(text);
}

/** Whether a text fits on the line of its key. */
function isSimpleKey(text: string, isLibyaml: boolean): boolean {
  if (isLibyaml) return text.length <= 128 && !/[\r\n\x85\u2028\u2029]/.test(text);
  return text !== '' && text.length < 128 && !breaks.test(text);
}

/** How YAML is written. */
export interface DumpOptions {
  /** Everything in braces and brackets, nothing, or only lists and dicts of scalars (`null`). */
  readonly flowStyle: boolean | null;
  /** Spaces for each level. Default 2. */
  readonly indent?: number;
  /**
   * Whether to write as libyaml does, which Salt uses for `--out yaml`: bytes stand below `|`, and
   * text in double quotes is folded at blanks alone. Default false: as PyYAML's own emitter, which
   * Salt uses in templates.
   */
  readonly isLibyaml?: boolean;
  readonly meter: UsageMeter;
}

/** @throws LimitExceeded */
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

/** What is written as a mapping or a sequence. */
export type Collection = Value[] | Tuple | Dict | PySet;

class YamlWriter {
  readonly #options: DumpOptions;
  readonly #emitter: YamlEmitter;
  readonly #perLevel: number;
  readonly #walk: RecursionGuard;
  /** Lists and dicts that are there more than once, with their anchors in order. */
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

  /** What is there twice gets an anchor, numbered by its second place. */
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
    if (key instanceof Bytes) return this.#options.isLibyaml !== true;
    return typeof key !== 'string' || isSimpleKey(key, this.#options.isLibyaml === true);
  }

  #scalar(value: Value, place: NodePosition): void {
    this.#emitter.indent += this.#perLevel;
    this.#writeScalar(value, place);
    this.#emitter.indent -= this.#perLevel;
  }

  #writeScalar(value: Value, { isInFlow, isKey }: NodePosition): void {
    const { isLibyaml = false } = this.#options;
    if (value instanceof Bytes) {
      this.#emitter.indicator('!!binary', { needsSpace: true });
      if (isLibyaml) this.#libyamlBytes(value.bytes, isInFlow);
      else this.#emitter.double(`${Buffer.from(value.bytes).toString('base64')}\n`, !isKey);
      return;
    }
    // Salt writes objects that have no YAML as NULL, marked text among them.
    if (typeof value !== 'string') {
      const text = isLibyaml && isPyObject(value) ? str(value) : 'NULL';
      this.#emitter.plain(representScalar(value) ?? text, !isKey);
      return;
    }
    const style = scalarStyle(value, { isInFlow, isKey });
    this.#emitter[isLibyaml && style === 'double' ? 'libyamlDouble' : style](value, !isKey);
  }

  #libyamlBytes(bytes: Uint8Array, isInFlow: boolean): void {
    const text = Buffer.from(bytes).toString('base64');
    const lines = text.match(/.{1,76}/g) ?? [];
    if (isInFlow || lines.length === 0) {
      this.#emitter.libyamlDouble(lines.map((line) => `${line}\n`).join(''), false);
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

/** In order, where the keys have one. @throws LimitExceeded */
function sortedKeys(keys: Value[], meter: UsageMeter): Value[] {
  try {
    return sortValues(keys, {}, meter);
  } catch (error) {
    if (error instanceof PythonException) return keys;
    throw error;
  }
}

/** What is written as a mapping or a sequence. */
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
