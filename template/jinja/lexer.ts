/** Template text into tokens [jinja2/lexer.py]. */

import { parseInteger } from '../python/integer.ts';
import { isIdentifier } from '../python/letter-case.ts';
import { isWhitespace, spaceClass, stripEnd } from '../python/text.ts';
import { Float, type Value } from '../python/values.ts';
import { literalText } from './string-literal.ts';
import { SyntaxProblem } from './syntax-problem.ts';
import { type OperatorToken, operators, quoted, type Token, type TokenType } from './tokens.ts';

/** How white space around tags is treated; Salt's `jinja_env` and `jinja_sls_env`. */
export interface WhitespaceOptions {
  /** Whether the line break after a block is dropped. Default false. */
  readonly trimBlocks?: boolean;
  /** Whether white space before a block at the start of a line is dropped. Default false. */
  readonly lstripBlocks?: boolean;
}

const opening = /\{[%{#]/g;
const rawBegin = new RegExp(
  `\\{%([-+]?)${spaceClass}*raw${spaceClass}*(?:-%\\}${spaceClass}*|%\\})`,
  'y',
);
const whitespace = new RegExp(`${spaceClass}+`, 'y');
const float = /(?<!\.)(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[+-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)/iy;
const integer = /0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*/iy;
const name = /[\p{L}\p{M}\p{N}\p{Pc}\u00b7\u0387\u1369-\u1371\u19da\u2118\u212e]+/uy;
const string = /'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"/sy;
const operator = new RegExp(
  operators.map((symbol) => symbol.replace(/[|\\{}()[\]^$+*?.]/g, '\\$&')).join('|'),
  'y',
);
const closers: Readonly<Record<string, string>> = { '{': '}', '(': ')', '[': ']' };

/** @throws SyntaxProblem, when the token is asked for that cannot be read */
export function tokenize(source: string, options: WhitespaceOptions = {}): Generator<Token> {
  return new Lexer(source, options).tokens();
}

class Lexer {
  readonly #source: string;
  readonly #lstrip: boolean;
  readonly #commentEnd: RegExp;
  readonly #blockEnd: RegExp;
  readonly #variableEnd: RegExp = new RegExp(`-\\}\\}${spaceClass}*|\\}\\}`, 'y');
  readonly #rawEnd: RegExp;
  #at = 0;
  #line = 1;
  #isLineStart = true;

  constructor(source: string, { trimBlocks = false, lstripBlocks = false }: WhitespaceOptions) {
    const lines = source.split(/\r\n|\r|\n/);
    if (lines.at(-1) === '') lines.pop();
    this.#source = lines.join('\n');
    this.#lstrip = lstripBlocks;
    const after = trimBlocks ? '\\n?' : '';
    this.#commentEnd = new RegExp(`\\+#\\}|-#\\}${spaceClass}*|#\\}${after}`, 'g');
    this.#blockEnd = new RegExp(`\\+%\\}|-%\\}${spaceClass}*|%\\}${after}`, 'y');
    this.#rawEnd = new RegExp(
      `\\{%([-+]?)${spaceClass}*endraw${spaceClass}*(?:\\+%\\}|-%\\}${spaceClass}*|%\\}${after})`,
      'g',
    );
  }

  *tokens(): Generator<Token> {
    while (this.#at < this.#source.length) {
      const found = this.#search(opening);
      if (found === null) {
        yield this.#token('data', this.#take(this.#source.length));
        return;
      }
      yield* this.#tag(found);
    }
  }

  *#tag(found: RegExpExecArray): Generator<Token> {
    const symbol = found[0];
    rawBegin.lastIndex = found.index;
    const raw = symbol === '{%' ? rawBegin.exec(this.#source) : null;
    const sign = raw === null ? this.#signAt(found.index + 2) : (raw[1] ?? '');
    yield* this.#data(found.index, sign, symbol === '{{');
    if (raw !== null) {
      this.#take(found.index + raw[0].length);
      yield* this.#raw();
      return;
    }
    const line = this.#line;
    this.#take(found.index + 2 + sign.length);
    if (symbol === '{#') {
      this.#comment();
    } else if (symbol === '{{') {
      yield { type: 'variable_begin', text: symbol, value: null, line };
      yield* this.#expression('variable_end', this.#variableEnd);
    } else {
      yield { type: 'block_begin', text: symbol, value: null, line };
      yield* this.#expression('block_end', this.#blockEnd);
    }
  }

  #signAt(index: number): string {
    const character = this.#source.charAt(index);
    return character === '-' || character === '+' ? character : '';
  }

  /** The text before a tag, without what the tag strips from it. */
  *#data(end: number, sign: string, isVariable: boolean): Generator<Token> {
    const wasLineStart = this.#isLineStart;
    const line = this.#line;
    const text = this.#take(end);
    const kept = this.#strip(text, sign, isVariable, wasLineStart);
    if (kept !== '') yield { type: 'data', text: kept, value: null, line };
  }

  #strip(text: string, sign: string, isVariable: boolean, isLineStart: boolean): string {
    if (sign === '-') return stripEnd(text);
    if (sign === '+' || !this.#lstrip || isVariable) return text;
    const lineStart = text.lastIndexOf('\n') + 1;
    const isAtStart = lineStart > 0 || isLineStart;
    return isAtStart && isWhitespace(text.slice(lineStart)) ? text.slice(0, lineStart) : text;
  }

  *#raw(): Generator<Token> {
    const end = this.#search(this.#rawEnd);
    if (end === null) throw new SyntaxProblem('Missing end of raw directive', this.#line);
    yield* this.#data(end.index, end[1] ?? '', false);
    this.#take(end.index + end[0].length);
  }

  #comment(): void {
    const end = this.#search(this.#commentEnd);
    if (end === null) throw new SyntaxProblem('Missing end of comment tag', this.#line);
    this.#take(end.index + end[0].length);
  }

  *#expression(endType: TokenType, end: RegExp): Generator<Token> {
    const open: string[] = [];
    while (this.#at < this.#source.length) {
      const ending = open.length === 0 ? this.#match(end) : undefined;
      if (ending !== undefined) {
        yield this.#token(endType, ending);
        return;
      }
      if (this.#match(whitespace) !== undefined) continue;
      yield this.#literalOrName() ?? this.#operator(open);
    }
  }

  #literalOrName(): Token | undefined {
    const line = this.#line;
    const token = (type: TokenType, text: string, value: Value = null): Token => ({
      type,
      text,
      value,
      line,
    });
    const real = this.#match(float);
    if (real !== undefined) {
      return token('float', real, new Float(Number(real.replaceAll('_', ''))));
    }
    const whole = this.#match(integer);
    if (whole !== undefined) return token('integer', whole, this.#integer(whole));
    const word = this.#match(name);
    if (word !== undefined) {
      if (isIdentifier(word)) return token('name', word);
      throw new SyntaxProblem('Invalid character in identifier', line);
    }
    const literal = this.#match(string);
    return literal === undefined
      ? undefined
      : token('string', literalText(literal.slice(1, -1), line));
  }

  #integer(text: string): Value {
    const value = parseInteger(text.replaceAll('_', ''), 0);
    if (value === undefined)
      throw new SyntaxProblem('an integer is too large', this.#line, 'ValueError');
    return value;
  }

  #operator(open: string[]): Token {
    const line = this.#line;
    const symbol = this.#match(operator);
    if (symbol === undefined) {
      const character = quoted(this.#source.charAt(this.#at));
      throw new SyntaxProblem(`unexpected char ${character} at ${this.#at}`, line);
    }
    const closer = closers[symbol];
    if (closer !== undefined) open.push(closer);
    if (symbol === '}' || symbol === ')' || symbol === ']') {
      const expected = open.pop();
      if (expected === undefined) throw new SyntaxProblem(`unexpected '${symbol}'`, line);
      if (expected !== symbol) {
        throw new SyntaxProblem(`unexpected '${symbol}', expected '${expected}'`, line);
      }
    }
    return { type: asOperator(symbol), text: symbol, value: null, line };
  }

  #token(type: TokenType, text: string): Token {
    const lines = text.split('\n').length - 1;
    return { type, text, value: null, line: this.#line - lines };
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#source);
    return match === null ? undefined : this.#take(this.#at + match[0].length);
  }

  #search(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    return pattern.exec(this.#source);
  }

  #take(end: number): string {
    const text = this.#source.slice(this.#at, end);
    this.#at = end;
    for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) this.#line += 1;
    if (text !== '') this.#isLineStart = text.endsWith('\n');
    return text;
  }
}

function asOperator(symbol: string): OperatorToken {
  return operators.find((known) => known === symbol) ?? ';';
}
