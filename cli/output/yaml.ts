/** YAML as libyaml writes it for PyYAML's `safe_dump` [salt output/yaml_out.py; libyaml emitter.c]. */

import { isPlainYamlText } from '../../master/index.ts';
import { WireDateTime, WireExtension, type WireValue } from '../../minion-protocol/index.ts';
import { mapEntries, mapEntriesByKey, pythonNumber } from './python.ts';

// Analysis of a text before it is written [libyaml emitter.c, yaml_emitter_analyze_scalar].

/** How a text can be written. */
type ScalarStyle = 'plain' | 'single' | 'double';

/** Where it is to be written. */
interface ScalarPlace {
  readonly isInFlow: boolean;
  readonly isKey: boolean;
}

/** What libyaml writes as it is; but for marks that turn the direction of writing. */
const printable = /^[\n\x20-\x7e\xa0-\u2029\u202f-\u2065\u206a-\ud7ff\ue000-\ufefe\uff00-\ufffd]$/u;
const breaks = /[\r\n\x85\u2028\u2029]/;
const blank = /^[ \t\r\n\x85\u2028\u2029]?$/;

/** Characters that mean something at the start of a plain text, and elsewhere. */
const startIndicators = '#,[]{}&*!|>\'"%@`';
const flowIndicators = ',?[]{}';

/** Whether libyaml writes this character only with an escape. */
function needsEscape(character: string): boolean {
  return !printable.test(character);
}

/** The simplest style that keeps the text. */
function chooseStyle(text: string, { isInFlow, isKey }: ScalarPlace): ScalarStyle {
  const facts = analyzeScalar(text);
  if (isKey && facts.isMultiline) return 'double';
  const isPlain = isInFlow ? facts.isPlainInFlow : facts.isPlainInBlock;
  if (text !== '' && isPlain && isPlainYamlText(text)) return 'plain';
  return facts.isSingle ? 'single' : 'double';
}

interface ScalarFacts {
  readonly isMultiline: boolean;
  readonly isPlainInFlow: boolean;
  readonly isPlainInBlock: boolean;
  readonly isSingle: boolean;
}

function analyzeScalar(text: string): ScalarFacts {
  const characters = Array.from(text);
  const isMultiline = breaks.test(text);
  const isSpecial = characters.some(needsEscape) || / [\r\n\x85\u2028\u2029]/.test(text);
  const hasBreakSpace = /[\r\n\x85\u2028\u2029] /.test(text);
  const isEdged = /^[ \r\n\x85\u2028\u2029]|[ \r\n\x85\u2028\u2029]$/.test(text);
  const isPlain = !isMultiline && !isSpecial && !isEdged;
  const indicators = findIndicators(characters);
  return {
    isMultiline,
    isPlainInFlow: isPlain && !indicators.inFlow,
    isPlainInBlock: isPlain && !indicators.inBlock,
    isSingle: !isSpecial && !hasBreakSpace,
  };
}

function findIndicators(characters: readonly string[]): { inFlow: boolean; inBlock: boolean } {
  const start = characters.slice(0, 3).join('');
  let inBlock = start === '---' || start === '...';
  let inFlow = inBlock;
  for (const [index, character] of characters.entries()) {
    const isBlankNext = blank.test(characters[index + 1] ?? '');
    const isBlankBefore = index === 0 || blank.test(characters[index - 1] ?? '');
    if (index === 0 && startIndicators.includes(character)) inBlock = true;
    if (index === 0 && character === '-' && isBlankNext) inBlock = true;
    if (index === 0 && character === '?' && isBlankNext) inBlock = true;
    if (character === ':' && isBlankNext) inBlock = true;
    if (character === '#' && isBlankBefore) inBlock = true;
    if (character === ':' || flowIndicators.includes(character)) inFlow = true;
  }
  return { inFlow: inFlow || inBlock, inBlock };
}

// Emitter [libyaml emitter.c, yaml_emitter_write_*].

/** How a text is written at its place. */
interface TextOptions {
  /** Spaces before the lines that follow the first. */
  readonly indent: number;
  /** Whether it may go on in another line. */
  readonly canBreak: boolean;
}

interface IndicatorOptions {
  /** Whether it stands apart from what is before it. */
  readonly needsBlank?: boolean;
  /** Whether what follows needs no blank. */
  readonly isBlank?: boolean;
  /** Whether what follows may begin on the same line, as behind the dash of a list. */
  readonly isIndent?: boolean;
}

/** Columns; text goes on in another line at the first blank behind them. */
const bestWidth = 80;

const escapes: ReadonlyMap<string, string> = new Map([
  ['\0', '0'],
  ['\x07', 'a'],
  ['\b', 'b'],
  ['\t', 't'],
  ['\n', 'n'],
  ['\v', 'v'],
  ['\f', 'f'],
  ['\r', 'r'],
  ['\x1b', 'e'],
  ['"', '"'],
  ['\\', '\\'],
  ['\x85', 'N'],
  ['\xa0', '_'],
  ['\u2028', 'L'],
  ['\u2029', 'P'],
]);

class YamlLines {
  #text = '';
  #column = 0;
  #isBlank = true;
  #isAtIndent = true;

  /** Without the newline at its end. */
  get text(): string {
    return this.#text;
  }

  get isFull(): boolean {
    return this.#column > bestWidth;
  }

  /** Whether nothing but indentation, and dashes of lists, is on this line. */
  get isAtIndent(): boolean {
    return this.#isAtIndent;
  }

  /** Goes to this column of a new line, or of this one if nothing is there. */
  indent(indent: number): void {
    const column = Math.max(0, indent);
    const isBehind = this.#column > column || (this.#column === column && !this.#isBlank);
    if (!this.#isAtIndent || isBehind) this.#newline();
    while (this.#column < column) this.#put(' ');
    this.#isBlank = true;
    this.#isAtIndent = true;
  }

  indicator(mark: string, options: IndicatorOptions = {}): void {
    if (options.needsBlank && !this.#isBlank) this.#put(' ');
    this.#put(mark);
    this.#isBlank = options.isBlank === true;
    this.#isAtIndent = this.#isAtIndent && options.isIndent === true;
  }

  /** The next line begins anew, whatever comes. */
  endBlock(): void {
    this.#isAtIndent = false;
  }

  plain(text: string, { indent, canBreak }: TextOptions): void {
    if (!this.#isBlank) this.#put(' ');
    const characters = Array.from(text);
    let hasSpace = false;
    for (const [index, character] of characters.entries()) {
      const isSpace = character === ' ';
      const isLone = !hasSpace && characters[index + 1] !== ' ';
      if (isSpace && canBreak && isLone && this.isFull) this.indent(indent);
      else this.#write(character);
      hasSpace = isSpace;
    }
    this.#isBlank = false;
    this.#isAtIndent = false;
  }

  single(text: string, { indent, canBreak }: TextOptions): void {
    this.indicator("'", { needsBlank: true });
    const characters = Array.from(text);
    let [hasSpace, hasBreak] = [false, false];
    for (const [index, character] of characters.entries()) {
      const isInside = index > 0 && index < characters.length - 1;
      if (character === ' ') {
        const isLone = !hasSpace && characters[index + 1] !== ' ';
        if (canBreak && isInside && isLone && this.isFull) this.indent(indent);
        else this.#write(character);
        hasSpace = true;
      } else if (character === '\n') {
        if (!hasBreak) this.#newline();
        this.#newline();
        this.#isAtIndent = true;
        hasBreak = true;
      } else {
        if (hasBreak) this.indent(indent);
        this.#write(character === "'" ? "''" : character);
        [hasSpace, hasBreak] = [false, false];
      }
    }
    if (hasBreak) this.indent(indent);
    this.#close("'");
  }

  double(text: string, { indent, canBreak }: TextOptions): void {
    this.indicator('"', { needsBlank: true });
    const characters = Array.from(text);
    let hasSpace = false;
    for (const [index, character] of characters.entries()) {
      const isInside = index > 0 && index < characters.length - 1;
      if (character === ' ' && canBreak && !hasSpace && isInside && this.isFull) {
        this.indent(indent);
        if (characters[index + 1] === ' ') this.#put('\\');
      } else {
        this.#put(isEscaped(character) ? toEscape(character) : character);
      }
      hasSpace = character === ' ';
    }
    this.#close('"');
  }

  #close(quote: string): void {
    this.indicator(quote);
    this.#isBlank = false;
    this.#isAtIndent = false;
  }

  #write(text: string): void {
    this.#put(text);
    this.#isAtIndent = false;
  }

  #put(text: string): void {
    this.#text += text;
    this.#column += Array.from(text).length;
  }

  #newline(): void {
    this.#text += '\n';
    this.#column = 0;
  }
}

function isEscaped(character: string): boolean {
  return '"\\\n\xa0\u2028\u2029'.includes(character)
    ? character !== '\xa0'
    : needsEscape(character);
}

function toEscape(character: string): string {
  const short = escapes.get(character);
  if (short !== undefined) return `\\${short}`;
  const code = character.codePointAt(0) ?? 0;
  if (code <= 0xff) return `\\x${hex(code, 2)}`;
  return code <= 0xffff ? `\\u${hex(code, 4)}` : `\\U${hex(code, 8)}`;
}

function hex(code: number, digits: number): string {
  return code.toString(16).toUpperCase().padStart(digits, '0');
}

/** How YAML is laid out. */
export interface YamlOptions {
  /** Spaces for each level, 2 to 9; negative: everything in flow style. Default 2. */
  readonly indent?: number | undefined;
}

/** The value as YAML, keys sorted, without a newline at its end. */
export function formatYaml(value: WireValue, { indent = 2 }: YamlOptions = {}): string {
  const isFlow = indent < 0;
  const perLevel = indent >= 2 && indent <= 9 ? indent : 2;
  const writer = new YamlWriter(perLevel, isFlow);
  writer.write(value, { indent: -1, isInMap: false, isKey: false, isInFlow: false });
  return writer.text;
}

/** Where a value is written. */
interface YamlPlace {
  readonly indent: number;
  /** Whether it is the value of a map, whose lists need no indentation of their own. */
  readonly isInMap: boolean;
  readonly isKey: boolean;
  readonly isInFlow: boolean;
}

class YamlWriter {
  readonly #perLevel: number;
  readonly #isFlow: boolean;
  readonly #lines = new YamlLines();

  constructor(perLevel: number, isFlow: boolean) {
    this.#perLevel = perLevel;
    this.#isFlow = isFlow;
  }

  get text(): string {
    return this.#lines.text;
  }

  write(value: WireValue, place: YamlPlace): void {
    if (value instanceof WireExtension) this.write([value.code, value.data], place);
    else if (Array.isArray(value)) this.#writeList(value, place);
    else if (value instanceof Uint8Array) this.#writeBytes(value, place);
    else if (mapEntries(value) !== undefined) this.#writeMap(value, place);
    else this.#writeScalar(value, place);
  }

  #writeList(items: readonly WireValue[], place: YamlPlace): void {
    const lines = this.#lines;
    if (this.#isFlow || place.isInFlow || items.length === 0) {
      const indent = this.#flowIndent(place.indent);
      lines.indicator('[', { needsBlank: true, isBlank: true });
      for (const [index, item] of items.entries()) {
        if (index > 0) lines.indicator(',');
        if (lines.isFull) lines.indent(indent);
        this.write(item, { indent, isInMap: false, isKey: false, isInFlow: true });
      }
      lines.indicator(']');
      return;
    }
    const isFlush = place.isInMap && !lines.isAtIndent;
    const indent = isFlush ? place.indent : this.#blockIndent(place.indent);
    for (const item of items) {
      lines.indent(indent);
      lines.indicator('-', { needsBlank: true, isIndent: true });
      this.write(item, { indent, isInMap: false, isKey: false, isInFlow: false });
    }
  }

  #writeMap(map: WireValue, place: YamlPlace): void {
    const lines = this.#lines;
    const entries = mapEntriesByKey(map, 'keep');
    if (this.#isFlow || place.isInFlow || entries.length === 0) {
      const indent = this.#flowIndent(place.indent);
      lines.indicator('{', { needsBlank: true, isBlank: true });
      for (const [index, [key, item]] of entries.entries()) {
        if (index > 0) lines.indicator(',');
        if (lines.isFull) lines.indent(indent);
        this.#writeEntry(key, item, { indent, isInMap: true, isKey: false, isInFlow: true });
      }
      lines.indicator('}');
      return;
    }
    const indent = this.#blockIndent(place.indent);
    for (const [key, item] of entries) {
      lines.indent(indent);
      this.#writeEntry(key, item, { indent, isInMap: true, isKey: false, isInFlow: false });
    }
  }

  #writeEntry(key: WireValue, item: WireValue, place: YamlPlace): void {
    const isSimple = isSimpleKey(key);
    if (!isSimple) this.#lines.indicator('?', { needsBlank: true, isIndent: !place.isInFlow });
    this.write(key, { ...place, isKey: isSimple });
    if (!isSimple && !place.isInFlow) this.#lines.indent(place.indent);
    this.#lines.indicator(':', { needsBlank: !isSimple, isIndent: !isSimple && !place.isInFlow });
    this.write(item, place);
  }

  #writeScalar(value: WireValue, place: YamlPlace): void {
    if (typeof value !== 'string') {
      this.#lines.plain(plainText(value), { indent: place.indent, canBreak: false });
      return;
    }
    const indent = this.#blockIndent(place.indent, place.isInFlow);
    this.#lines[chooseStyle(value, place)](value, { indent, canBreak: !place.isKey });
  }

  #writeBytes(bytes: Uint8Array, place: YamlPlace): void {
    const indent = this.#blockIndent(place.indent);
    const lines =
      Buffer.from(bytes)
        .toString('base64')
        .match(/.{1,76}/g) ?? [];
    if (this.#isFlow || place.isInFlow || lines.length === 0) {
      this.#lines.plain('!!binary', { indent, canBreak: false });
      const text = lines.map((line) => `${line}\n`).join('');
      this.#lines.double(text, { indent, canBreak: false });
      return;
    }
    this.#lines.plain('!!binary |', { indent, canBreak: false });
    for (const line of lines) {
      this.#lines.indent(indent);
      this.#lines.plain(line, { indent, canBreak: false });
    }
    this.#lines.endBlock();
  }

  #blockIndent(indent: number, isFlow = false): number {
    if (indent < 0) return isFlow ? this.#perLevel : 0;
    return indent + this.#perLevel;
  }

  #flowIndent(indent: number): number {
    return this.#blockIndent(indent, true);
  }
}

/** Longer keys are marked with `?`. */
const maxSimpleKey = 128;

function isSimpleKey(key: WireValue): boolean {
  if (typeof key !== 'string') return !(key instanceof Uint8Array);
  return key.length <= maxSimpleKey && !/[\r\n\x85\u2028\u2029]/.test(key);
}

function plainText(value: WireValue): string {
  if (value === null) return 'null';
  if (typeof value === 'boolean') return String(value);
  if (value instanceof WireDateTime) return value.text;
  if (typeof value === 'number' && !Number.isFinite(value)) {
    if (Number.isNaN(value)) return '.nan';
    return value > 0 ? '.inf' : '-.inf';
  }
  if (typeof value !== 'number' && typeof value !== 'bigint') return '';
  const text = pythonNumber(value);
  return /^-?\d+e/.test(text) ? text.replace('e', '.0e') : text;
}
