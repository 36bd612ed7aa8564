import type { RegexDialect } from './dialects.ts';

/** A piece of an expression: how much of it was read, and how the engine says it. */
export interface Piece {
  readonly length: number;
  readonly written: string;
}

/** What stands between the brackets of a set. Python's `\d`, `\w` and `\s` are Unicode's. */
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

/** Writes escapes and sets of Python in a dialect. */
export class RegexCharacters {
  readonly #dialect: RegexDialect;

  constructor(dialect: RegexDialect) {
    this.#dialect = dialect;
  }

  /** The escape that `text` begins with, outside of brackets. @throws SyntaxError */
  escape(text: string): Piece {
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

  /** The set in brackets that `text` begins with. @throws SyntaxError */
  set(text: string): Piece {
    const isNegated = text[1] === '^';
    let at = isNegated ? 2 : 1;
    const first = at;
    let written = isNegated ? '[^' : '[';
    while (text[at] !== ']' || at === first) {
      if (at >= text.length) throw new SyntaxError('a set without an end');
      const member = this.#member(text.slice(at));
      written += member.written;
      at += member.length;
    }
    return { length: at + 1, written: `${written}]` };
  }

  #member(text: string): Piece {
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
    if (to.codePoint < from.codePoint) throw new SyntaxError('a range that runs backwards');
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
    throw new SyntaxError('an escape that does not exist or is not supported');
  }
  const escaped = text.codePointAt(1) ?? 0;
  return { length: escaped > 0xffff ? 3 : 2, codePoint: escaped };
}

function readCode(hex: string | undefined, octal: string | undefined): number {
  const codePoint = hex === undefined ? Number.parseInt(octal ?? '', 8) : Number.parseInt(hex, 16);
  if (codePoint > 0x10ffff) throw new SyntaxError('a character beyond the last one');
  return codePoint;
}

function own<T>(table: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}
