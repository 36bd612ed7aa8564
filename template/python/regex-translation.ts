/**
 * Translates regular expressions of Python's `re` to the syntax of RE2 or ECMAScript. Some
 * differences remain. `\b` counts only ASCII characters as letters, and so do `\W` and `\S` inside
 * brackets. A back-reference to a group without a match matches the empty text.
 */

import type { WorkMeter } from '#runtime';
import type { RegexDialect } from './regex-dialect.ts';
import { type ProgramSize, ProgramSizer } from './regex-size.ts';

/** A translated piece of an expression: its length in the source, and its text for the engine. */
interface RegexPiece {
  readonly length: number;
  readonly written: string;
}

/** Contents of bracket sets for Python's Unicode classes `\d`, `\w` and `\s`. */
const classes: Readonly<Record<string, string>> = {
  d: '\\p{Nd}',
  D: '\\P{Nd}',
  w: '\\p{L}\\p{N}_',
  s: '\\t-\\r\\x1c-\\x20\\x85\\p{Z}',
};
const complements: Readonly<Record<string, string>> = { W: 'w', S: 's' };
const controls: Readonly<Record<string, number>> = { a: 7, f: 12, n: 10, r: 13, t: 9, v: 11 };
const coded =
  /^\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(0[0-7]{0,2}|[0-3][0-7]{2}))/;

/** Translates Python's escapes and bracket sets to the syntax of an engine. */
class RegexCharacters {
  readonly #dialect: RegexDialect;

  constructor(dialect: RegexDialect) {
    this.#dialect = dialect;
  }

  /**
   * Translates the escape at the start of `text`, outside brackets.
   * @throws SyntaxError
   */
  escape(text: string): RegexPiece {
    const letter = text[1] ?? '';
    const set = own(classes, letter);
    if (set !== undefined) return { length: 2, written: `[${set}]` };
    const opposite = own(classes, own(complements, letter) ?? '');
    if (opposite !== undefined) return { length: 2, written: `[^${opposite}]` };
    if (letter === 'A') return { length: 2, written: this.#dialect.textStart };
    if (letter === 'Z') return { length: 2, written: this.#dialect.textEnd };
    if (letter === 'b' || letter === 'B') return { length: 2, written: `\\${letter}` };
    const { length, codePoint } = readCharacter(text);
    return { length, written: this.#dialect.character(codePoint) };
  }

  /**
   * Translates the bracket set at the start of `text`.
   * @throws SyntaxError
   */
  set(text: string): RegexPiece {
    const isNegated = text[1] === '^';
    let at = isNegated ? 2 : 1;
    const first = at;
    let written = isNegated ? '[^' : '[';
    while (text[at] !== ']' || at === first) {
      if (at >= text.length) throw new SyntaxError('unterminated character set');
      const member = this.#member(text.slice(at));
      written += member.written;
      at += member.length;
    }
    return { length: at + 1, written: `${written}]` };
  }

  #member(text: string): RegexPiece {
    const letter = text[0] === '\\' ? (text[1] ?? '') : '';
    const named = own(classes, letter) ?? (own(complements, letter) && `\\${letter}`);
    if (named !== undefined) return { length: 2, written: named };
    const from = readCharacter(text, true);
    const start = this.#dialect.character(from.codePoint);
    const after = text.slice(from.length);
    if (after[0] !== '-' || after[1] === ']' || after.length < 2) {
      return { length: from.length, written: start };
    }
    const to = readCharacter(after.slice(1), true);
    if (to.codePoint < from.codePoint)
      throw new SyntaxError('a character range is in reverse order');
    const end = this.#dialect.character(to.codePoint);
    return { length: from.length + 1 + to.length, written: `${start}-${end}` };
  }
}

function readCharacter(text: string, isInSet = false): { length: number; codePoint: number } {
  const codePoint = text.codePointAt(0) ?? 0;
  if (text[0] !== '\\') return { length: codePoint > 0xffff ? 2 : 1, codePoint };
  const [code, x, u, long, octal] = coded.exec(text) ?? [];
  if (code !== undefined)
    return { length: code.length, codePoint: readCode(x ?? u ?? long, octal) };
  const letter = text[1] ?? '';
  if (isInSet && letter === 'b') return { length: 2, codePoint: 8 };
  const control = own(controls, letter);
  if (control !== undefined) return { length: 2, codePoint: control };
  if (letter === '' || /[A-Za-z0-9]/.test(letter)) {
    throw new SyntaxError('unknown or unsupported escape sequence');
  }
  const escaped = text.codePointAt(1) ?? 0;
  return { length: escaped > 0xffff ? 3 : 2, codePoint: escaped };
}

function readCode(hex: string | undefined, octal: string | undefined): number {
  const codePoint = hex === undefined ? Number.parseInt(octal ?? '', 8) : Number.parseInt(hex, 16);
  if (codePoint > 0x10ffff) throw new SyntaxError('the character code is out of range');
  return codePoint;
}

function own<T>(table: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

/** Options of {@link translatePythonRegex}. */
export interface TranslationOptions {
  /** Whether `re.MULTILINE` is set. Default: false. */
  readonly multiline?: boolean;
  /**
   * Limits the length of the pattern, and counts the steps of its compilation. Needed if the
   * pattern comes from a client or minion.
   */
  readonly meter?: WorkMeter | undefined;
}

/** An expression translated to an engine's syntax. */
export interface Translation {
  readonly source: string;
  readonly ignoreCase: boolean;
  /** Whether the expression needs lookaround or back-references, which RE2 does not support. */
  readonly needsBacktracking: boolean;
  readonly size: ProgramSize;
}

interface Flags {
  readonly multiline: boolean;
  readonly dotAll: boolean;
  readonly verbose: boolean;
}

/**
 * Translates an expression. It does not report syntax errors that every engine detects itself.
 * @throws SyntaxError with the reason
 */
export function translatePythonRegex(
  pattern: string,
  dialect: RegexDialect,
  options: TranslationOptions = {},
): Translation {
  return new Translator(pattern, dialect, options).run();
}

const quantifier = /^(?:[*+?]|\{(\d*)(?:(,)(\d*))?\})/;
const globalFlags = /^\(\?([a-zA-Z]+)\)/;
const scopedFlags = /^\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?:/;
const groupName = /^\(\?P([<=])([A-Za-z_]\w*)[>)]/;
const lookaround = /^\(\?<?[=!]/;
const comment = /^\(\?#[^)]*\)/;

class Translator {
  readonly #dialect: RegexDialect;
  readonly #characters: RegexCharacters;
  #rest: string;
  #source = '';
  #flags: Flags;
  /**
   * Flags that were in effect before each open group. They take effect again when the group ends.
   */
  readonly #outer: Flags[] = [];
  #ignoreCase = false;
  #needsBacktracking = false;
  readonly #sizer: ProgramSizer;

  constructor(
    pattern: string,
    dialect: RegexDialect,
    { multiline = false, meter }: TranslationOptions,
  ) {
    this.#sizer = new ProgramSizer(pattern, meter);
    this.#flags = { multiline, dotAll: false, verbose: false };
    this.#rest = pattern;
    this.#dialect = dialect;
    this.#characters = new RegexCharacters(dialect);
  }

  run(): Translation {
    this.#takeGlobalFlags();
    while (this.#rest !== '') this.#emit(this.#next());
    const { length } = this.#outer;
    if (length > 0) throw new SyntaxError(`${length} unterminated group(s)`);
    this.#sizer.finish();
    return {
      size: this.#sizer.size,
      source: this.#source,
      ignoreCase: this.#ignoreCase,
      needsBacktracking: this.#needsBacktracking,
    };
  }

  #next(): RegexPiece {
    const [first = ''] = this.#rest;
    switch (first) {
      case '\\':
        return this.#escape();
      case '[':
        return this.#atom(this.#characters.set(this.#rest));
      case '(':
        return this.#open();
      case ')':
        return this.#close();
      case '|':
        this.#sizer.alternative();
        return piece(1, '|');
      case '.':
        return this.#atom(piece(1, this.#flags.dotAll ? this.#dialect.any : '[^\\n]'));
      case '^':
        return this.#atom(
          piece(1, this.#dialect[this.#flags.multiline ? 'lineStart' : 'textStart']),
        );
      case '$':
        return this.#atom(
          piece(1, this.#dialect[this.#flags.multiline ? 'lineEnd' : 'lastLineEnd']),
        );
      default:
        return this.#repeatOrLiteral(first);
    }
  }

  /**
   * Counts a translated piece of the expression as one instruction, and returns the piece
   * unchanged.
   */
  #atom(read: RegexPiece): RegexPiece {
    this.#sizer.atom(read.written);
    return read;
  }

  #repeatOrLiteral(first: string): RegexPiece {
    const skipped = this.#flags.verbose ? skippedByVerbose(this.#rest) : 0;
    if (skipped > 0) return piece(skipped, '');
    const match = quantifier.exec(this.#rest);
    const [text = '', least, comma, most] = match ?? [];
    if (match === null || text === '{}') {
      return this.#atom(piece(first.length, this.#dialect.character(first.codePointAt(0) ?? 0)));
    }
    this.#sizer.repeat(...timesOf(text, least, comma, most));
    const after = this.#rest[text.length];
    if (after === '+') throw new SyntaxError('possessive repetition is not supported');
    const written = least === undefined ? text : `{${least || '0'}${comma ?? ''}${most ?? ''}}`;
    return after === '?' ? piece(text.length + 1, `${written}?`) : piece(text.length, written);
  }

  #escape(): RegexPiece {
    const reference = /^\\([1-9]\d?)/.exec(this.#rest);
    if (reference !== null && !/^\\[0-3][0-7]{2}/.test(this.#rest)) {
      this.#needsBacktracking = true;
      return this.#atom(piece(reference[0].length, `(?:\\${reference[1]})`));
    }
    return this.#atom(this.#characters.escape(this.#rest));
  }

  #open(): RegexPiece {
    const [ignored] = comment.exec(this.#rest) ?? [];
    if (ignored !== undefined) return piece(ignored.length, '');
    const [name, sign, label = ''] = groupName.exec(this.#rest) ?? [];
    if (name !== undefined && sign === '=') {
      this.#needsBacktracking = true;
      return this.#atom(piece(name.length, `\\k<${label}>`));
    }
    this.#outer.push(this.#flags);
    this.#sizer.open();
    if (name !== undefined) return piece(name.length, this.#dialect.namedGroup(label));
    const [around] = lookaround.exec(this.#rest) ?? [];
    if (around !== undefined) {
      this.#needsBacktracking = true;
      return piece(around.length, around);
    }
    if (!this.#rest.startsWith('(?')) return piece(1, '(');
    return this.#openWithFlags();
  }

  #openWithFlags(): RegexPiece {
    const [text, on = '', off = ''] = scopedFlags.exec(this.#rest) ?? [];
    if (text === undefined) {
      const isLate = globalFlags.test(this.#rest);
      throw new SyntaxError(
        isLate ? 'flags are only allowed at the start' : 'unsupported kind of group',
      );
    }
    this.#setFlags(on.replace('i', ''), true);
    this.#setFlags(off.replace('i', ''), false);
    const letterCase = on.includes('i') ? 'i' : off.includes('i') ? '-i' : '';
    return piece(text.length, `(?${letterCase}:`);
  }

  #close(): RegexPiece {
    const outer = this.#outer.pop();
    if (outer === undefined) throw new SyntaxError('unbalanced closing parenthesis');
    this.#flags = outer;
    this.#sizer.close();
    return piece(1, ')');
  }

  #takeGlobalFlags(): void {
    for (let match = globalFlags.exec(this.#rest); match; match = globalFlags.exec(this.#rest)) {
      const [text, letters = ''] = match;
      this.#ignoreCase ||= letters.includes('i');
      this.#setFlags(letters.replace('i', ''), true);
      this.#emit(piece(text.length, ''));
    }
  }

  #setFlags(letters: string, value: boolean): void {
    for (const letter of letters) {
      if (letter === 'm') this.#flags = { ...this.#flags, multiline: value };
      else if (letter === 's') this.#flags = { ...this.#flags, dotAll: value };
      else if (letter === 'x') this.#flags = { ...this.#flags, verbose: value };
      else if (letter !== 'u') throw new SyntaxError(`the flag ${letter} is not supported`);
    }
  }

  #emit({ length, written }: RegexPiece): void {
    this.#rest = this.#rest.slice(length);
    this.#source += written;
  }
}

function piece(length: number, written: string): RegexPiece {
  return { length, written };
}

/**
 * Returns the minimum and maximum number of repetitions of a quantifier. A maximum of `undefined`
 * means that there is none.
 */
function timesOf(
  text: string,
  least: string | undefined,
  comma: string | undefined,
  most: string | undefined,
): [least: number, most: number | undefined] {
  if (least === undefined) return [text === '+' ? 1 : 0, text === '?' ? 1 : undefined];
  const from = Number(least);
  if (comma === undefined) return [from, from];
  return [from, most === undefined || most === '' ? undefined : Number(most)];
}

function skippedByVerbose(text: string): number {
  return /^(?:\s+|#[^\n]*)/.exec(text)?.[0].length ?? 0;
}
