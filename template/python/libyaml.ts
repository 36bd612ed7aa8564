/**
 * YAML as libyaml writes it for PyYAML's `safe_dump` [salt output/yaml_out.py; libyaml emitter.c].
 * PyYAML's own emitter, which Salt's templates use, is in yaml.ts: the two differ in what they
 * escape, where they fold lines, and how they write bytes and bounds of keys.
 */

import type { UsageMeter } from './limits.ts';
import { Bytes, Dict, isPyObject, str, Tuple, type Value } from './values.ts';
import { escapeSequence, representScalar, resolveTag, sortedKeys } from './yaml.ts';

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
  if (text !== '' && isPlain && resolveTag(text) === 'str') return 'plain';
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
        this.#put(isEscaped(character) ? escapeSequence(character) : character);
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

/** How YAML is laid out. */
export interface LibyamlOptions {
  /** Spaces for each level, 2 to 9; negative: everything in flow style. */
  readonly indent: number;
  readonly meter: UsageMeter;
}

/** The value as YAML, keys sorted, without a newline at its end. @throws LimitExceeded */
export function dumpLibyaml(value: Value, options: LibyamlOptions): string {
  const writer = new YamlWriter(options);
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
  readonly #meter: UsageMeter;
  readonly #lines = new YamlLines();

  constructor({ indent, meter }: LibyamlOptions) {
    this.#perLevel = indent >= 2 && indent <= 9 ? indent : 2;
    this.#isFlow = indent < 0;
    this.#meter = meter;
  }

  get text(): string {
    return this.#lines.text;
  }

  write(value: Value, place: YamlPlace): void {
    this.#meter.step();
    if (Array.isArray(value)) this.#writeList(value, place);
    else if (value instanceof Tuple) this.#writeList(value.items, place);
    else if (value instanceof Bytes) this.#writeBytes(value.bytes, place);
    else if (value instanceof Dict) this.#writeMap(value, place);
    else this.#writeScalar(value, place);
  }

  #writeList(items: readonly Value[], place: YamlPlace): void {
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

  #writeMap(map: Dict, place: YamlPlace): void {
    const lines = this.#lines;
    const entries = sortedKeys(map.keys(), this.#meter).map(
      (key) => [key, map.get(key) ?? null] as const,
    );
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

  #writeEntry(key: Value, item: Value, place: YamlPlace): void {
    const isSimple = isSimpleKey(key);
    if (!isSimple) this.#lines.indicator('?', { needsBlank: true, isIndent: !place.isInFlow });
    this.write(key, { ...place, isKey: isSimple });
    if (!isSimple && !place.isInFlow) this.#lines.indent(place.indent);
    this.#lines.indicator(':', { needsBlank: !isSimple, isIndent: !isSimple && !place.isInFlow });
    this.write(item, place);
  }

  #writeScalar(value: Value, place: YamlPlace): void {
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

function isSimpleKey(key: Value): boolean {
  if (typeof key !== 'string') return !(key instanceof Bytes);
  return key.length <= maxSimpleKey && !/[\r\n\x85\u2028\u2029]/.test(key);
}

function plainText(value: Value): string {
  return representScalar(value) ?? (isPyObject(value) ? str(value) : '');
}
