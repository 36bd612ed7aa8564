/** Splits template text into tokens [jinja2/lexer.py]. */

import { parseInteger } from '../python/numbers.ts';
import { textRepr } from '../python/repr.ts';
import { isWhitespace, spaceClass, stripEnd } from '../python/text.ts';
import { isIdentifier } from '../python/text-case.ts';
import { Float, type Value } from '../python/values.ts';
import { JinjaSyntaxError, literalText } from './string-literal.ts';

/** Type of a token. The type of an operator is the operator itself. */
export type TokenType =
  | 'data'
  | 'variable_begin'
  | 'variable_end'
  | 'block_begin'
  | 'block_end'
  | 'name'
  | 'string'
  | 'integer'
  | 'float'
  | 'eof'
  | OperatorToken;

/** All operators. Longer ones come first, because the first match is used. */
const operators = [
  '//',
  '**',
  '==',
  '!=',
  '>=',
  '<=',
  '+',
  '-',
  '/',
  '*',
  '%',
  '~',
  '[',
  ']',
  '(',
  ')',
  '{',
  '}',
  '>',
  '<',
  '=',
  '.',
  ':',
  '|',
  ',',
  ';',
] as const;

/** An operator. */
type OperatorToken = (typeof operators)[number];

/** A token of a template. */
export interface Token {
  readonly type: TokenType;
  /** Source characters. For a string literal, its value. */
  readonly text: string;
  /** Number that an `integer` or `float` token contains. */
  readonly value: Value;
  readonly line: number;
}

const descriptions: Readonly<Partial<Record<TokenType, string>>> = {
  block_begin: 'begin of statement block',
  block_end: 'end of statement block',
  variable_begin: 'begin of print statement',
  variable_end: 'end of print statement',
  data: 'template data / text',
  eof: 'end of template',
};

/** Describes a token as in jinja2's messages. */
export function describeToken({ type, text }: Token): string {
  return type === 'name' ? text : describeType(type);
}

/** Describes a type of token as in jinja2's messages. */
function describeType(type: TokenType): string {
  return descriptions[type] ?? type;
}

/** Handling of whitespace around tags, as in Salt's options `jinja_env` and `jinja_sls_env`. */
export interface WhitespaceOptions {
  /** Whether the line break after a block is removed. Default: false. */
  readonly trimBlocks?: boolean;
  /** Whether whitespace before a block at the start of a line is removed. Default: false. */
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

/**
 * Yields the tokens of a source text.
 * @throws JinjaSyntaxError when the iterator reaches an invalid token
 */
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

  /**
   * Yields the text before a tag, without the whitespace that the tag removes (`{%-`,
   * `trim_blocks`).
   */
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
    if (end === null) throw new JinjaSyntaxError('Missing end of raw directive', this.#line);
    yield* this.#data(end.index, end[1] ?? '', false);
    this.#take(end.index + end[0].length);
  }

  #comment(): void {
    const end = this.#search(this.#commentEnd);
    if (end === null) throw new JinjaSyntaxError('Missing end of comment tag', this.#line);
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
      throw new JinjaSyntaxError('Invalid character in identifier', line);
    }
    const literal = this.#match(string);
    return literal === undefined
      ? undefined
      : token('string', literalText(literal.slice(1, -1), line));
  }

  #integer(text: string): Value {
    const value = parseInteger(text.replaceAll('_', ''), 0);
    if (value === undefined)
      throw new JinjaSyntaxError(
        'an integer in the template has too many digits',
        this.#line,
        'ValueError',
      );
    return value;
  }

  #operator(open: string[]): Token {
    const line = this.#line;
    const symbol = this.#match(operator);
    if (symbol === undefined) {
      const character = textRepr(this.#source.charAt(this.#at));
      throw new JinjaSyntaxError(`unexpected char ${character} at ${this.#at}`, line);
    }
    const closer = closers[symbol];
    if (closer !== undefined) open.push(closer);
    if (symbol === '}' || symbol === ')' || symbol === ']') {
      const expected = open.pop();
      if (expected === undefined) throw new JinjaSyntaxError(`unexpected '${symbol}'`, line);
      if (expected !== symbol) {
        throw new JinjaSyntaxError(`unexpected '${symbol}', expected '${expected}'`, line);
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

/** Maximum nesting depth of a template. Each level uses some of the JavaScript stack. */
const maxNesting = 120;

/** Tokens of a template with one token of look-ahead. */
export class TokenStream {
  readonly #tokens: Iterator<Token>;
  #current: Token;
  #ahead: Token | undefined;
  #nesting = 0;

  constructor(tokens: Iterator<Token>) {
    this.#tokens = tokens;
    this.#current = { type: 'eof', text: '', value: null, line: 1 };
    this.next();
  }

  get current(): Token {
    return this.#current;
  }

  /** Returns the current token and advances to the next. */
  next(): Token {
    const token = this.#current;
    this.#current = this.#ahead ?? this.#read();
    this.#ahead = undefined;
    return token;
  }

  /** Returns the token after the current one. */
  look(): Token {
    this.#ahead ??= this.#read();
    return this.#ahead;
  }

  /** Whether the current token has this type. */
  at(type: TokenType): boolean {
    return this.#current.type === type;
  }

  /** Whether the current token is one of these words. */
  atName(...names: readonly string[]): boolean {
    return this.#current.type === 'name' && names.includes(this.#current.text);
  }

  skipIf(type: TokenType): boolean {
    if (!this.at(type)) return false;
    this.next();
    return true;
  }

  skipName(name: string): boolean {
    if (!this.atName(name)) return false;
    this.next();
    return true;
  }

  /**
   * Returns the current token if it has this type, and advances.
   * @throws JinjaSyntaxError if it has another type
   */
  expect(type: TokenType): Token {
    if (!this.at(type)) this.#unexpected(describeType(type));
    return this.next();
  }

  /**
   * Returns the current token if it is this word, and advances.
   * @throws JinjaSyntaxError if the current token is anything else
   */
  expectName(name: string): Token {
    if (!this.atName(name)) this.#unexpected(name);
    return this.next();
  }

  /**
   * Throws a syntax error at the current line.
   * @throws JinjaSyntaxError
   */
  fail(message: string, line: number = this.#current.line, kind?: string): never {
    throw new JinjaSyntaxError(message, line, kind);
  }

  /**
   * Calls `read`, which parses a construct that can contain itself, such as parentheses.
   * @throws JinjaSyntaxError if it is nested too deeply
   */
  nested<T>(read: () => T): T {
    this.#nesting += 1;
    if (this.#nesting > maxNesting)
      this.fail('expressions and blocks are nested too deeply', undefined, 'RecursionError');
    const result = read();
    this.#nesting -= 1;
    return result;
  }

  #unexpected(expected: string): never {
    const token = this.#current;
    if (token.type === 'eof') {
      this.fail(`unexpected end of template, expected ${textRepr(expected)}.`);
    }
    this.fail(`expected token ${textRepr(expected)}, got ${textRepr(describeToken(token))}`);
  }

  #read(): Token {
    const next = this.#tokens.next();
    if (next.done !== true) return next.value;
    return { type: 'eof', text: '', value: null, line: this.#current.line };
  }
}
