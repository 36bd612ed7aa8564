/** Lines of YAML in the making [libyaml emitter.c, yaml_emitter_write_*]. */
import { needsEscape } from './yaml-scalar.ts';

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

export class YamlLines {
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
