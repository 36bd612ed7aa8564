/**
 * Compound expressions: words, `and`, `or`, `not` and parentheses, with Python's precedence
 * [WIRE 12.1; salt/matchers/compound_match.py].
 */

/** Whether a minion is meant; `unknown` when that depends on facts that are not known. */
export type Verdict = 'yes' | 'no' | 'unknown';

/** How the words of an expression hang together. */
export type Expression =
  | {
      readonly kind: 'term';
      /** Which word. */
      readonly word: string;
      /** Its place among the terms, from 0. */
      readonly index: number;
      /** Whether `not` stands directly before it. */
      readonly isExcluded: boolean;
    }
  | { readonly kind: 'not'; readonly of: Expression }
  | { readonly kind: 'and' | 'or'; readonly of: readonly Expression[] };

const operators: ReadonlySet<string> = new Set(['and', 'or', 'not', '(', ')']);

/** Python reads no deeper ones either. */
const maxDepth = 100;

/** Whether a word of an expression is an operator or a parenthesis. */
export function isOperator(word: string): boolean {
  return operators.has(word);
}

/** The words of a target: text is split where there are spaces. */
export function splitWords(tgt: string | readonly string[]): readonly string[] {
  if (typeof tgt !== 'string') return tgt;
  return tgt.trim() === '' ? [] : tgt.trim().split(/\s+/);
}

/** @throws SyntaxError with the reason, when the words are no expression */
export function parseCompound(words: readonly string[]): Expression {
  return new CompoundParser(words).parse();
}

/**
 * What an expression says when its terms say so: what is unknown stays unknown unless it cannot
 * matter.
 */
export function evaluate(expression: Expression, verdictOf: (index: number) => Verdict): Verdict {
  switch (expression.kind) {
    case 'term':
      return verdictOf(expression.index);
    case 'not':
      return opposite(evaluate(expression.of, verdictOf));
    case 'and':
      return firstOrLess(expression.of, verdictOf, 'no', 'yes');
    case 'or':
      return firstOrLess(expression.of, verdictOf, 'yes', 'no');
  }
}

function opposite(verdict: Verdict): Verdict {
  if (verdict === 'unknown') return verdict;
  return verdict === 'yes' ? 'no' : 'yes';
}

/** `decisive` if one says so, else `unknown` if one says that, else `rest`. */
function firstOrLess(
  parts: readonly Expression[],
  verdictOf: (index: number) => Verdict,
  decisive: Verdict,
  rest: Verdict,
): Verdict {
  let result = rest;
  for (const part of parts) {
    const verdict = evaluate(part, verdictOf);
    if (verdict === decisive) return decisive;
    if (verdict === 'unknown') result = verdict;
  }
  return result;
}

/** The expression without the terms that are not kept; `undefined` when none is left. */
export function keepTerms(
  expression: Expression,
  isKept: (index: number) => boolean,
): Expression | undefined {
  switch (expression.kind) {
    case 'term':
      return isKept(expression.index) ? expression : undefined;
    case 'not': {
      const of = keepTerms(expression.of, isKept);
      return of && { kind: 'not', of };
    }
    case 'and':
    case 'or': {
      const parts = expression.of.flatMap((part) => keepTerms(part, isKept) ?? []);
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

  parse(): Expression {
    const expression = this.#or();
    const left = this.#words[this.#at];
    if (left === ')') throw new SyntaxError('a parenthesis that closes nothing');
    if (left !== undefined) throw new SyntaxError('two terms without an operator between them');
    return expression;
  }

  #or(): Expression {
    const parts = [this.#and()];
    while (this.#take('or')) parts.push(this.#and());
    return combine('or', parts);
  }

  /** `a not b` means `a and not b`. */
  #and(): Expression {
    const parts = [this.#not()];
    while (this.#take('and') || this.#words[this.#at] === 'not') parts.push(this.#not());
    return combine('and', parts);
  }

  #not(): Expression {
    return this.#take('not') ? { kind: 'not', of: this.#primary(true) } : this.#primary(false);
  }

  #primary(isExcluded: boolean): Expression {
    if (this.#take('(')) return this.#parenthesised();
    const word = this.#words[this.#at];
    if (word === undefined) throw new SyntaxError('a term is missing at the end');
    if (isOperator(word)) throw new SyntaxError(`a term is missing before "${word}"`);
    this.#at += 1;
    this.#terms += 1;
    return { kind: 'term', word, index: this.#terms - 1, isExcluded };
  }

  #parenthesised(): Expression {
    this.#depth += 1;
    if (this.#depth > maxDepth) throw new SyntaxError(`more than ${maxDepth} parentheses deep`);
    const expression = this.#or();
    if (!this.#take(')')) throw new SyntaxError('a parenthesis that is not closed');
    this.#depth -= 1;
    return expression;
  }

  #take(word: string): boolean {
    if (this.#words[this.#at] !== word) return false;
    this.#at += 1;
    return true;
  }
}

function combine(kind: 'and' | 'or', parts: readonly Expression[]): Expression {
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : { kind, of: parts };
}
