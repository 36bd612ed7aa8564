/**
 * Compound expressions: words, `and`, `or`, `not` and parentheses, with Python's precedence
 * [WIRE 12.1; salt/matchers/compound_match.py].
 */

/** Whether a minion is meant; `unknown` when that depends on facts that are not known. */
export type MatchResult = 'yes' | 'no' | 'unknown';

/** How the words of an expression hang together. */
export type CompoundExpression =
  | {
      readonly kind: 'term';
      /** Which word. */
      readonly word: string;
      /** Its place among the terms, from 0. */
      readonly index: number;
      /** Whether `not` stands directly before it. */
      readonly isExcluded: boolean;
    }
  | { readonly kind: 'not'; readonly of: CompoundExpression }
  | { readonly kind: 'and' | 'or'; readonly of: readonly CompoundExpression[] };

const operators: ReadonlySet<string> = new Set(['and', 'or', 'not', '(', ')']);

/** Python reads no deeper ones either. */
const maxDepth = 100;

/** Whether a word of an expression is an operator or a parenthesis. */
function isCompoundOperator(word: string): boolean {
  return operators.has(word);
}

/** The words of a target: text is split where there are spaces. */
export function splitTargetWords(tgt: string | readonly string[]): readonly string[] {
  if (typeof tgt !== 'string') return tgt;
  return tgt.trim() === '' ? [] : tgt.trim().split(/\s+/);
}

/** @throws SyntaxError with the reason, when the words are no expression */
export function parseCompound(words: readonly string[]): CompoundExpression {
  return new CompoundParser(words).parse();
}

/**
 * What an expression says when its terms say so: what is unknown stays unknown unless it cannot
 * matter.
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

/** `decisive` if one says so, else `unknown` if one says that, else `rest`. */
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

/** The expression without the terms that are not kept; `undefined` when none is left. */
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
    if (left === ')') throw new SyntaxError('a parenthesis that closes nothing');
    if (left !== undefined) throw new SyntaxError('two terms without an operator between them');
    return expression;
  }

  #or(): CompoundExpression {
    const parts = [this.#and()];
    while (this.#take('or')) parts.push(this.#and());
    return combine('or', parts);
  }

  /** `a not b` means `a and not b`. */
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
    if (word === undefined) throw new SyntaxError('a term is missing at the end');
    if (isCompoundOperator(word)) throw new SyntaxError(`a term is missing before "${word}"`);
    this.#at += 1;
    this.#terms += 1;
    return { kind: 'term', word, index: this.#terms - 1, isExcluded };
  }

  #parenthesised(): CompoundExpression {
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

function combine(kind: 'and' | 'or', parts: readonly CompoundExpression[]): CompoundExpression {
  const [only] = parts;
  return parts.length === 1 && only !== undefined ? only : { kind, of: parts };
}

// Nodegroups: names for compound expressions, which may name each other
// [salt/utils/minions.py nodegroup_comp]. A group inside of an expression is put in parentheses;
// Salt leaves them out in one place, where `not N@group` then means less than it says.

/** Name → definition: an expression as text, or its words or ids as a list. */
export type Nodegroups = Readonly<Record<string, string | readonly string[]>>;

/** Groups that name each other many times over would grow without end. */
const maxWords = 10_000;

/**
 * The words of a group, with every `N@` in them replaced.
 * @throws SyntaxError with the reason: no such group, one that contains itself, too many words
 */
export function expandNodegroup(name: string, nodegroups: Nodegroups): string[] {
  return new Expansion(nodegroups).group(name, []);
}

/**
 * The words of a compound expression, with every `N@` in them replaced.
 * @throws SyntaxError with the reason
 */
export function expandCompound(words: readonly string[], nodegroups: Nodegroups): string[] {
  return new Expansion(nodegroups).words(words, []);
}

/**
 * A way from a group back to itself, for instance `['a', 'b', 'a']`; `undefined` when there is
 * none.
 */
export function findNodegroupLoop(nodegroups: Nodegroups): readonly string[] | undefined {
  const harmless = new Set<string>();
  const follow = (name: string, path: readonly string[]): readonly string[] | undefined => {
    if (path.includes(name)) return [...path.slice(path.indexOf(name)), name];
    if (harmless.has(name)) return undefined;
    for (const next of namedIn(nodegroups, name)) {
      const loop = follow(next, [...path, name]);
      if (loop !== undefined) return loop;
    }
    harmless.add(name);
    return undefined;
  };
  for (const name of Object.keys(nodegroups)) {
    const loop = follow(name, []);
    if (loop !== undefined) return loop;
  }
  return undefined;
}

function namedIn(nodegroups: Nodegroups, name: string): string[] {
  return definitionOf(nodegroups, name).flatMap((word) => groupNameOf(word) ?? []);
}

function definitionOf(nodegroups: Nodegroups, name: string): string[] {
  return Object.hasOwn(nodegroups, name) ? [...splitTargetWords(nodegroups[name] ?? [])] : [];
}

function groupNameOf(word: string): string | undefined {
  return word.length > 2 && word.startsWith('N@') ? word.slice(2) : undefined;
}

class Expansion {
  readonly #nodegroups: Nodegroups;
  #count = 0;

  constructor(nodegroups: Nodegroups) {
    this.#nodegroups = nodegroups;
  }

  words(words: readonly string[], path: readonly string[]): string[] {
    return words.flatMap((word) => {
      this.#count += 1;
      if (this.#count > maxWords)
        throw new SyntaxError(`nodegroups of more than ${maxWords} words`);
      const name = groupNameOf(word);
      return name === undefined ? word : ['(', ...this.group(name, path), ')'];
    });
  }

  group(name: string, path: readonly string[]): string[] {
    if (path.includes(name)) {
      throw new SyntaxError(`nodegroup "${name}" contains itself: ${[...path, name].join(' > ')}`);
    }
    if (!Object.hasOwn(this.#nodegroups, name)) {
      throw new SyntaxError(`nodegroup "${name}" is not defined`);
    }
    const words = definitionOf(this.#nodegroups, name);
    return isPlainList(words) ? [joined(words)] : this.words(words, [...path, name]);
  }
}

/** A definition without operators, globs and letters is a list of ids, or one expression. */
function isPlainList(words: readonly string[]): boolean {
  return (
    words.length > 0 &&
    !words.some((word) => isCompoundOperator(word) || word.includes('*') || /^[A-Z]@/.test(word))
  );
}

/** [salt/utils/minions.py _nodegroup_regex] */
function joined(words: readonly string[]): string {
  const isExpression = words.some((word) => /[([{\\?}\])]/.test(word));
  return `${isExpression ? 'E' : 'L'}@${words.join(',')}`;
}
