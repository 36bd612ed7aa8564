/**
 * Compound expressions: conditions with `and`, `or`, `not` and parentheses, with Python's
 * precedence [WIRE 12.1; salt/matchers/compound_match.py].
 */

import type { WorkMeter } from '#runtime';

/**
 * Whether a target matches a minion. `unknown` if the result depends on grains or pillar that the
 * master has not stored.
 */
export type MatchResult = 'yes' | 'no' | 'unknown';

/** Syntax tree of a compound expression. */
export type CompoundExpression =
  | {
      readonly kind: 'term';
      /** The condition as written, for example `G@os:Debian`. */
      readonly word: string;
      /** Index of this term among all terms of the expression, from 0. */
      readonly index: number;
      /** Whether `not` precedes the term directly. */
      readonly isExcluded: boolean;
    }
  | { readonly kind: 'not'; readonly of: CompoundExpression }
  | { readonly kind: 'and' | 'or'; readonly of: readonly CompoundExpression[] };

/** Words of an expression that are operators or parentheses. */
export const compoundOperators: ReadonlySet<string> = new Set(['and', 'or', 'not', '(', ')']);

/** Maximum nesting of parentheses. Python's parser has the same limit. */
const maxDepth = 100;
/**
 * Maximum number of words in an expression from a client or minion. Parsers without a meter do not
 * apply it.
 */
const maxWords = 20_000;

/**
 * Returns the words of a target. A text is split at white space.
 * @param meter - limits the result for a text to 20,001 words. The other words are not needed,
 * because {@link parseCompound} rejects more than 20,000. Default: no limit
 */
export function splitTargetWords(
  tgt: string | readonly string[],
  meter?: WorkMeter,
): readonly string[] {
  if (typeof tgt !== 'string') return tgt;
  return tgt.trim() === '' ? [] : tgt.trim().split(/\s+/, meter && maxWords + 1);
}

/**
 * Parses an expression.
 * @param meter - counts the words, and rejects more than 20,000; omit it only for trusted
 * expressions
 * @throws SyntaxError with the reason, if the words are not a valid expression
 */
export function parseCompound(words: readonly string[], meter?: WorkMeter): CompoundExpression {
  if (words.length > maxWords) meter?.refuse('a compound target', maxWords, 'words');
  meter?.spend('a compound target', words.length * 10);
  return new CompoundParser(words).parse();
}

/**
 * Evaluates an expression from the results of its terms. If terms have the result `unknown`, and
 * the expression depends on them, the result is `unknown` too.
 */
export function evaluateCompound(
  expression: CompoundExpression,
  verdictOf: (index: number) => MatchResult,
): MatchResult {
  switch (expression.kind) {
    case 'term':
      return verdictOf(expression.index);
    case 'not':
      return opposite(evaluateCompound(expression.of, verdictOf));
    case 'and':
      return decisiveResult(expression.of, verdictOf, 'no', 'yes');
    case 'or':
      return decisiveResult(expression.of, verdictOf, 'yes', 'no');
  }
}

function opposite(verdict: MatchResult): MatchResult {
  if (verdict === 'unknown') return verdict;
  return verdict === 'yes' ? 'no' : 'yes';
}

/**
 * Combines the results of the operands of `and` or `or`. If an operand has the result `decisive`,
 * returns `decisive`. Otherwise, if an operand is `unknown`, returns `unknown`. Otherwise returns
 * `rest`.
 */
function decisiveResult(
  parts: readonly CompoundExpression[],
  verdictOf: (index: number) => MatchResult,
  decisive: MatchResult,
  rest: MatchResult,
): MatchResult {
  let result = rest;
  for (const part of parts) {
    const verdict = evaluateCompound(part, verdictOf);
    if (verdict === decisive) return decisive;
    if (verdict === 'unknown') result = verdict;
  }
  return result;
}

/**
 * Returns the expression without the terms for which `isKept` returns false, or `undefined` if no
 * term is left.
 */
export function filterTerms(
  expression: CompoundExpression,
  isKept: (index: number) => boolean,
): CompoundExpression | undefined {
  switch (expression.kind) {
    case 'term':
      return isKept(expression.index) ? expression : undefined;
    case 'not': {
      const of = filterTerms(expression.of, isKept);
      return of && { kind: 'not', of };
    }
    case 'and':
    case 'or': {
      const parts = expression.of.flatMap((part) => filterTerms(part, isKept) ?? []);
      return parts.length === 0 ? undefined : combine(expression.kind, parts);
    }
  }
}

class CompoundParser {
  readonly #words: readonly string[];
  #at = 0;
  #terms = 0;
  #depth = 0;

  constructor(words: readonly string[]) {
    this.#words = words;
  }

  parse(): CompoundExpression {
    const expression = this.#or();
    const left = this.#words[this.#at];
    if (left === ')') throw new SyntaxError('a closing parenthesis has no opening parenthesis');
    if (left !== undefined)
      throw new SyntaxError('an operator (and, or) is missing between two conditions');
    return expression;
  }

  #or(): CompoundExpression {
    const parts = [this.#and()];
    while (this.#take('or')) parts.push(this.#and());
    return combine('or', parts);
  }

  /** Parses terms joined by `and`. As in Salt, `a not b` means `a and not b`. */
  #and(): CompoundExpression {
    const parts = [this.#not()];
    while (this.#take('and') || this.#words[this.#at] === 'not') parts.push(this.#not());
    return combine('and', parts);
  }

  #not(): CompoundExpression {
    return this.#take('not') ? { kind: 'not', of: this.#primary(true) } : this.#primary(false);
  }

  #primary(isExcluded: boolean): CompoundExpression {
    if (this.#take('(')) return this.#parenthesised();
    const word = this.#words[this.#at];
    if (word === undefined)
      throw new SyntaxError('a condition is missing at the end of the target');
    if (compoundOperators.has(word))
      throw new SyntaxError(`a condition is missing before "${word}"`);
    this.#at += 1;
    this.#terms += 1;
    return { kind: 'term', word, index: this.#terms - 1, isExcluded };
  }

  #parenthesised(): CompoundExpression {
    this.#depth += 1;
    if (this.#depth > maxDepth)
      throw new SyntaxError(`parentheses are nested more than ${maxDepth} deep`);
    const expression = this.#or();
    if (!this.#take(')')) throw new SyntaxError('a closing parenthesis is missing');
    this.#depth -= 1;
    return expression;
  }

  #take(word: string): boolean {
    if (this.#words[this.#at] !== word) return false;
    this.#at += 1;
    return true;
  }
}

function combine(kind: 'and' | 'or', parts: readonly CompoundExpression[]): CompoundExpression {
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : { kind, of: parts };
}
