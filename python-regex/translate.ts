/**
 * Regular expressions as Python's `re` reads them, written anew for another engine. Known
 * differences: `\b` looks at ASCII letters only, and so do `\W` and `\S` inside of brackets; a
 * back-reference to a group that took no part matches the empty text.
 */
import { type Piece, RegexCharacters } from './characters.ts';
import type { RegexDialect } from './dialects.ts';

/** What holds from the first character on. */
export interface TranslationOptions {
  /** `re.MULTILINE`. Default false. */
  readonly multiline?: boolean;
}

/** An expression in the engine's own syntax. */
export interface Translation {
  readonly source: string;
  readonly ignoreCase: boolean;
  /** Whether it has lookaround or back-references, which RE2 has not. */
  readonly needsBacktracking: boolean;
}

interface Flags {
  readonly multiline: boolean;
  readonly dotAll: boolean;
  readonly verbose: boolean;
}

/**
 * Translates an expression. Errors of form that every engine sees are left to the engine.
 * @throws SyntaxError with the reason
 */
export function translatePython(
  pattern: string,
  dialect: RegexDialect,
  options: TranslationOptions = {},
): Translation {
  return new Translator(pattern, dialect, options).run();
}

const quantifier = /^(?:[*+?]|\{(\d*)(,?)(\d*)\})/;
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
  /** Flags to go back to at the end of each open group. */
  readonly #outer: Flags[] = [];
  #ignoreCase = false;
  #needsBacktracking = false;

  constructor(pattern: string, dialect: RegexDialect, { multiline = false }: TranslationOptions) {
    this.#flags = { multiline, dotAll: false, verbose: false };
    this.#rest = pattern;
    this.#dialect = dialect;
    this.#characters = new RegexCharacters(dialect);
  }

  run(): Translation {
    this.#takeGlobalFlags();
    while (this.#rest !== '') this.#emit(this.#next());
    const { length } = this.#outer;
    if (length > 0) throw new SyntaxError(`${length} group(s) without an end`);
    return {
      source: this.#source,
      ignoreCase: this.#ignoreCase,
      needsBacktracking: this.#needsBacktracking,
    };
  }

  #next(): Piece {
    const [first = ''] = this.#rest;
    switch (first) {
      case '\\':
        return this.#escape();
      case '[':
        return this.#characters.set(this.#rest);
      case '(':
        return this.#open();
      case ')':
        return this.#close();
      case '|':
        return piece(1, '|');
      case '.':
        return piece(1, this.#flags.dotAll ? this.#dialect.any : '[^\\n]');
      case '^':
        return piece(1, this.#dialect[this.#flags.multiline ? 'lineStart' : 'textStart']);
      case '$':
        return piece(1, this.#dialect[this.#flags.multiline ? 'lineEnd' : 'lastLineEnd']);
      default:
        return this.#repeatOrLiteral(first);
    }
  }

  #repeatOrLiteral(first: string): Piece {
    const skipped = this.#flags.verbose ? skippedByVerbose(this.#rest) : 0;
    if (skipped > 0) return piece(skipped, '');
    const match = quantifier.exec(this.#rest);
    const [text = '', least, comma, most] = match ?? [];
    if (match === null || text === '{}') {
      return piece(first.length, this.#dialect.character(first.codePointAt(0) ?? 0));
    }
    const after = this.#rest[text.length];
    if (after === '+') throw new SyntaxError('possessive repetition is not supported');
    const written = least === undefined ? text : `{${least || '0'}${comma}${most}}`;
    return after === '?' ? piece(text.length + 1, `${written}?`) : piece(text.length, written);
  }

  #escape(): Piece {
    const reference = /^\\([1-9]\d?)/.exec(this.#rest);
    if (reference !== null && !/^\\[0-3][0-7]{2}/.test(this.#rest)) {
      this.#needsBacktracking = true;
      return piece(reference[0].length, `(?:\\${reference[1]})`);
    }
    return this.#characters.escape(this.#rest);
  }

  #open(): Piece {
    const [ignored] = comment.exec(this.#rest) ?? [];
    if (ignored !== undefined) return piece(ignored.length, '');
    const [name, sign, label = ''] = groupName.exec(this.#rest) ?? [];
    if (name !== undefined && sign === '=') {
      this.#needsBacktracking = true;
      return piece(name.length, `\\k<${label}>`);
    }
    this.#outer.push(this.#flags);
    if (name !== undefined) return piece(name.length, this.#dialect.namedGroup(label));
    const [around] = lookaround.exec(this.#rest) ?? [];
    if (around !== undefined) {
      this.#needsBacktracking = true;
      return piece(around.length, around);
    }
    if (!this.#rest.startsWith('(?')) return piece(1, '(');
    return this.#openWithFlags();
  }

  #openWithFlags(): Piece {
    const [text, on = '', off = ''] = scopedFlags.exec(this.#rest) ?? [];
    if (text === undefined) {
      const isLate = globalFlags.test(this.#rest);
      throw new SyntaxError(
        isLate ? 'flags that are not at the start' : 'a group of a kind that is not supported',
      );
    }
    this.#setFlags(on.replace('i', ''), true);
    this.#setFlags(off.replace('i', ''), false);
    const letterCase = on.includes('i') ? 'i' : off.includes('i') ? '-i' : '';
    return piece(text.length, `(?${letterCase}:`);
  }

  #close(): Piece {
    const outer = this.#outer.pop();
    if (outer === undefined) throw new SyntaxError('a parenthesis that closes nothing');
    this.#flags = outer;
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

  #emit({ length, written }: Piece): void {
    this.#rest = this.#rest.slice(length);
    this.#source += written;
  }
}

function piece(length: number, written: string): Piece {
  return { length, written };
}

function skippedByVerbose(text: string): number {
  return /^(?:\s+|#[^\n]*)/.exec(text)?.[0].length ?? 0;
}
