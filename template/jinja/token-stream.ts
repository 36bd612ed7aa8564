import { SyntaxProblem } from './syntax-problem.ts';
import { describeToken, describeType, quoted, type Token, type TokenType } from './tokens.ts';

/** Deeper nesting is refused; every level costs the interpreter's own stack. */
const maxNesting = 120;

/** The tokens of a template, with a look ahead of one. */
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

  /** Gives the current token and goes on to the next. */
  next(): Token {
    const token = this.#current;
    this.#current = this.#ahead ?? this.#read();
    this.#ahead = undefined;
    return token;
  }

  /** The token after the current one. */
  look(): Token {
    this.#ahead ??= this.#read();
    return this.#ahead;
  }

  /** Whether the current token is of a type. */
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

  /** @throws SyntaxProblem */
  expect(type: TokenType): Token {
    if (!this.at(type)) this.#unexpected(describeType(type));
    return this.next();
  }

  /** @throws SyntaxProblem */
  expectName(name: string): Token {
    if (!this.atName(name)) this.#unexpected(name);
    return this.next();
  }

  /** @throws SyntaxProblem */
  fail(message: string, line: number = this.#current.line, kind?: string): never {
    throw new SyntaxProblem(message, line, kind);
  }

  /** Reads something that may contain itself. @throws SyntaxProblem when it is nested too deep */
  nested<T>(read: () => T): T {
    this.#nesting += 1;
    if (this.#nesting > maxNesting) this.fail('too many nested parts', undefined, 'RecursionError');
    const result = read();
    this.#nesting -= 1;
    return result;
  }

  #unexpected(expected: string): never {
    const token = this.#current;
    if (token.type === 'eof') {
      this.fail(`unexpected end of template, expected ${quoted(expected)}.`);
    }
    this.fail(`expected token ${quoted(expected)}, got ${quoted(describeToken(token))}`);
  }

  #read(): Token {
    const next = this.#tokens.next();
    if (next.done !== true) return next.value;
    return { type: 'eof', text: '', value: null, line: this.#current.line };
  }
}
