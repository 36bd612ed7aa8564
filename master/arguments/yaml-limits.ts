/** Limits of YAML, checked on tokens before values are created. */

import { CST, Lexer, Parser } from 'yaml';

/** How much YAML is read, and whether all of YAML. */
export interface YamlLimits {
  /** Values, keys among them. Default 1,000,000. */
  readonly maxValues?: number;
  /** Levels of lists and maps. Default 64. */
  readonly maxDepth?: number;
  /**
   * Takes neither anchors, aliases nor tags: what JSON has too. Integers beyond 64 bits become
   * their decimal text. Default false.
   */
  readonly isPlain?: boolean;
  /** Reads floats without a fraction as `Float`. Default: as numbers. */
  readonly keepsFloats?: boolean;
}

/** More than a request to a minion may have. */
const usualLimits = { maxValues: 1_000_000, maxDepth: 64, isPlain: false };

/** What begins a value or a key. */
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
 * Reading a document is recursive, and a stack that is nearly full ends the process where V8
 * compiles a regular expression then: the depth is bounded before.
 * @throws SyntaxError at the first thing that is wrong
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

/** What opens levels within one line or one flow, and how many values there are. */
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
    // A pair is its key, its colon and its value.
    if (this.#values > 3 * maxValues) throw tooMany(maxValues);
    if (isPlain && markTypes.has(type)) {
      throw new SyntaxError('expected plain YAML: no anchor, alias or tag');
    }
    if (type === 'flow-seq-start' || type === 'flow-map-start') this.#flows += 1;
    else if (type === 'flow-seq-end' || type === 'flow-map-end') this.#flows -= 1;
    else if (type === 'seq-item-ind' || type === 'explicit-key-ind') this.#indicators += 1;
    else if (type === 'newline') this.#indicators = 0;
    if (this.#flows > maxDepth || this.#indicators > maxDepth) throw tooDeep();
  }
}

/** Levels without recursion. @throws SyntaxError */
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
  return new SyntaxError(`more than ${maxValues} values`);
}

function tooDeep(): SyntaxError {
  return new SyntaxError('the text is nested too deeply');
}

function childrenOf(token: CST.Token | null | undefined): (CST.Token | null | undefined)[] {
  if (token?.type === 'document') return [token.value];
  if (token === null || token === undefined || !('items' in token)) return [];
  return token.items.flatMap(({ key, value }) => [key, value]);
}
