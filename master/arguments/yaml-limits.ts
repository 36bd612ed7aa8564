import { CST, Lexer, Parser } from 'yaml';

/** Limits and dialect of a YAML document. */
export interface YamlLimits {
  /** Maximum number of values, including keys. Default: 1,000,000. */
  readonly maxValues?: number;
  /** Maximum nesting depth of lists and maps. Default: 64. */
  readonly maxDepth?: number;
  /**
   * Whether the document may use only features that JSON also has, that is, no anchors, aliases or
   * tags. Integers beyond 64 bits become strings of decimal digits. Default: false.
   */
  readonly isPlain?: boolean;
  /**
   * Whether floats without a fraction, such as `1.0`, become a `Float` instead of a number.
   * Default: false.
   */
  readonly keepsFloats?: boolean;
}

/**
 * Default limits. They are at least as high as the limits on the decrypted content of a minion's
 * request.
 */
const usualLimits = { maxValues: 1_000_000, maxDepth: 64, isPlain: false };

/** Token types that start a value or a key. */
const valueTypes: ReadonlySet<CST.TokenType | null> = new Set<CST.TokenType>([
  'alias',
  'block-scalar-header',
  'double-quoted-scalar',
  'flow-map-start',
  'flow-seq-start',
  'map-value-ind',
  'scalar',
  'seq-item-ind',
  'single-quoted-scalar',
]);
const markTypes: ReadonlySet<CST.TokenType | null> = new Set<CST.TokenType>([
  'alias',
  'anchor',
  'tag',
]);

/**
 * Splits a text into tokens and checks the limits before the document is built. Building the
 * document is recursive, and V8 ends the process if it must compile a regular expression on a
 * nearly full stack. The nesting depth must therefore be limited first.
 * @throws SyntaxError at the first violation
 */
export function* boundedTokens(text: string, given: YamlLimits): Generator<CST.Token, void, void> {
  const limits = { ...usualLimits, ...given };
  const parser = new Parser();
  const lexemes = new LexemeLimits(limits);
  for (const lexeme of new Lexer().lex(text)) {
    lexemes.check(lexeme);
    for (const token of parser.next(lexeme)) yield checked(token, limits.maxDepth);
  }
  for (const token of parser.end()) yield checked(token, limits.maxDepth);
}

/** Counts the values of a document, and the nesting depth inside a line or a flow collection. */
class LexemeLimits {
  readonly #limits: typeof usualLimits;
  #values = 0;
  #flows = 0;
  #indicators = 0;

  constructor(limits: typeof usualLimits) {
    this.#limits = limits;
  }

  check(lexeme: string): void {
    const type = CST.tokenType(lexeme);
    const { maxValues, maxDepth, isPlain } = this.#limits;
    if (valueTypes.has(type)) this.#values += 1;
    // A pair consists of three tokens, for its key, colon and value, but counts as two values.
    if (this.#values > 3 * maxValues) throw tooMany(maxValues);
    if (isPlain && markTypes.has(type)) {
      throw new SyntaxError('anchors, aliases and tags are not allowed in this YAML');
    }
    if (type === 'flow-seq-start' || type === 'flow-map-start') this.#flows += 1;
    else if (type === 'flow-seq-end' || type === 'flow-map-end') this.#flows -= 1;
    else if (type === 'seq-item-ind' || type === 'explicit-key-ind') this.#indicators += 1;
    else if (type === 'newline') this.#indicators = 0;
    if (this.#flows > maxDepth || this.#indicators > maxDepth) throw tooDeep();
  }
}

/**
 * Returns the token if its nesting depth is permitted. Does not use recursion, because deep nesting
 * could exhaust the stack.
 * @throws SyntaxError if the depth is exceeded, or if the token is an error of the lexer
 */
function checked(token: CST.Token, maxDepth: number): CST.Token {
  if (token.type === 'error') throw new SyntaxError(token.message);
  const waiting: [token: CST.Token | null | undefined, depth: number][] = [[token, 0]];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [found, depth] = next;
    if (depth > maxDepth) throw tooDeep();
    for (const child of childrenOf(found)) waiting.push([child, depth + 1]);
  }
  return token;
}

export function tooMany(maxValues: number): SyntaxError {
  return new SyntaxError(`the YAML text has more than ${maxValues} values`);
}

function tooDeep(): SyntaxError {
  return new SyntaxError('the YAML text is nested too deeply');
}

function childrenOf(token: CST.Token | null | undefined): (CST.Token | null | undefined)[] {
  if (token?.type === 'document') return [token.value];
  if (token === null || token === undefined || !('items' in token)) return [];
  return token.items.flatMap(({ key, value }) => [key, value]);
}
