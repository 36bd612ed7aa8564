/** Writes a YAML document piece by piece [libyaml src/emitter.c]. */

import type { UsageMeter } from './limits.ts';
import { escapeCharacter } from './yaml-quoted.ts';

const bestWidth = 80;
const isBreak = (character: string): boolean => /[\n\x85\u2028\u2029]/.test(character);

/** Writes scalars and indicators, and tracks the column. */
export class YamlEmitter {
  readonly #meter: UsageMeter;
  #text = '';
  #column = 0;
  /** Whether the last output was whitespace. */
  #isSpaced = true;
  /** Whether the current line contains only YAML block indicators so far, for example `- `. */
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

  /** Writes lines as a literal block scalar, which begins with `|`. */
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

  /** Writes a double-quoted scalar. Lines are broken only at spaces. */
  double(text: string, canSplit: boolean): void {
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

/**
 * Splits a text into runs of spaces, of line breaks, and of other characters, each with its index.
 */
function* runsOf(text: string): Generator<readonly [number, string]> {
  for (const match of text.matchAll(/ +|[\n\x85\u2028\u2029]+|[^ \n\x85\u2028\u2029]+/g)) {
    yield [match.index, match[0]];
  }
}
