/** Who a publication is meant for [WIRE 12.1; salt/matchers/*.py]: compiled once, then asked. */

import { compileGlob } from '#template/python/fnmatch.ts';
import {
  type IpInterface,
  isInNetwork,
  parseInterface,
  parseNetwork,
} from '#template/python/ip-address.ts';
import type { WireValue } from '../payload.ts';
import {
  compileFactMatch,
  type FactSource,
  type MinionFacts,
  type MinionResources,
} from './facts.ts';
import { compileLinearPattern, type PatternCompiler } from './pattern.ts';

// Compound expressions: words, `and`, `or`, `not` and parentheses, with Python's precedence
// [WIRE 12.1; salt/matchers/compound_match.py].

/** Whether a minion is meant; `unknown` when that depends on facts that are not known. */
type MatchResult = 'yes' | 'no' | 'unknown';

/** How the words of an expression hang together. */
type CompoundExpression =
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
function parseCompound(words: readonly string[]): CompoundExpression {
  return new CompoundParser(words).parse();
}

/**
 * What an expression says when its terms say so: what is unknown stays unknown unless it cannot
 * matter.
 */
function evaluateCompound(
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
function filterTerms(
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

/** The target types that go over the wire. */
const targetTypes = [
  'glob',
  'pcre',
  'list',
  'grain',
  'grain_pcre',
  'pillar',
  'pillar_exact',
  'pillar_pcre',
  'ipcidr',
  'compound',
] as const;

/** A target type that goes over the wire. */
export type TargetType = (typeof targetTypes)[number];

/** A target as it is published. */
export interface TargetExpression {
  readonly tgtType: TargetType;
  /** Text; a list of ids for `list`; text or its words for `compound`. */
  readonly tgt: string | readonly string[];
  /** Between the keys of grains and pillar; not used inside of `compound`. Default `:`. */
  readonly delimiter?: string;
}

/** A minion that may be meant. */
export interface TargetCandidate {
  readonly id: string;
  readonly facts: MinionFacts;
  /** What it manages besides itself. Default: nothing. */
  readonly resources?: MinionResources | undefined;
}

/** One condition of a target. */
export interface TargetTerm {
  /** As it was written. */
  readonly text: string;
  /** The ids that it lists and wants; empty for other conditions. */
  readonly ids: readonly string[];
  /** Whether it goes by grains or resources, which are the minion's own word. */
  readonly isSelfTold: boolean;
  /** Whether it is written as a pattern on pillar; it may be read as equality all the same. */
  readonly isPillarPattern: boolean;
  test(candidate: TargetCandidate): MatchResult;
  /** Whether it means this resource; absent where it does not go by resources. */
  readonly meansResource?: (type: string, id: string) => boolean;
}

/** A target that can be asked. */
export interface CompiledTarget {
  readonly terms: readonly TargetTerm[];
  /** Why the expression is broken, and therefore means nobody. */
  readonly problem: string | undefined;
  /** Whether this minion is meant. */
  test(candidate: TargetCandidate): MatchResult;
  /**
   * The same where each condition whose facts are not known counts as met, as Salt's master
   * resolves what it publishes [WIRE 12.2].
   */
  isPossible(candidate: TargetCandidate): boolean;
  /**
   * Whether this minion is meant where that gives it a right: for certain, and also by the
   * conditions other than those on grains. So grains can take a right away, and give none.
   */
  isEntitled(candidate: TargetCandidate): boolean;
  /**
   * The ids of resources that this minion returns for, in place of itself: where each condition
   * goes by resources [WIRE 23.3]. Otherwise none.
   */
  resourcesMeant(candidate: TargetCandidate): ReadonlySet<string>;
}

/** How {@link compileTarget} reads conditions on pillar. */
export interface CompileTargetOptions {
  /**
   * `exact`: each is equality, so that no pattern can find out what is in another's pillar, as in
   * Salt where a minion asks. Default `pattern`.
   */
  readonly pillar?: 'pattern' | 'exact';
  /**
   * What `N@name` means; `undefined`: nobody. Default: `N@` is not served, because minions do not
   * know it.
   */
  readonly groupOf?: (name: string) => CompiledTarget | undefined;
}

/** Whether text is the name of a target type that goes over the wire. */
export function isTargetType(text: string): text is TargetType {
  return targetTypes.some((type) => type === text);
}

/**
 * Compiles a target. A compound expression that is broken means nobody, as in Salt.
 * @param compilePattern for regular expressions. Default: those that cannot explode
 * @throws SyntaxError for a regular expression that cannot be read, with the reason
 */
export function compileTarget(
  target: TargetExpression,
  compilePattern: PatternCompiler = compileLinearPattern,
  options: CompileTargetOptions = {},
): CompiledTarget {
  const compiler = new TermCompiler(compilePattern, options);
  if (target.tgtType !== 'compound') {
    const term = compiler.compile(target.tgtType, target.tgt, target.delimiter ?? ':');
    return ready([term], { kind: 'term', word: term.text, index: 0, isExcluded: false });
  }
  const expression = tryToParse(splitTargetWords(target.tgt));
  if (typeof expression === 'string') return broken(expression);
  const terms: TargetTerm[] = [];
  for (const { word, isExcluded } of termsOf(expression)) {
    const term = compiler.compileWord(word);
    if (term === undefined) return broken(`"${word}": this kind of target is not served`);
    terms.push(isExcluded ? { ...term, ids: [] } : term);
  }
  return ready(terms, expression);
}

function ready(terms: readonly TargetTerm[], expression: CompoundExpression): CompiledTarget {
  const verdictOf = (candidate: TargetCandidate, index: number): MatchResult =>
    terms[index]?.test(candidate) ?? 'no';
  const told = filterTerms(expression, (index) => terms[index]?.isSelfTold === false);
  const isByResources = terms.every(({ meansResource }) => meansResource !== undefined);
  const says = (part: CompoundExpression, candidate: TargetCandidate): boolean =>
    evaluateCompound(part, (index) => verdictOf(candidate, index)) === 'yes';
  return {
    terms,
    problem: undefined,
    test: (candidate) => evaluateCompound(expression, (index) => verdictOf(candidate, index)),
    isPossible: (candidate) =>
      evaluateCompound(expression, (index) =>
        verdictOf(candidate, index) === 'no' ? 'no' : 'yes',
      ) === 'yes',
    isEntitled: (candidate) =>
      told !== undefined && says(told, candidate) && says(expression, candidate),
    resourcesMeant: ({ resources }) => {
      const meant = new Set<string>();
      for (const [type, ids] of isByResources ? (resources ?? []) : []) {
        for (const id of ids) {
          const verdictOn = (index: number): MatchResult =>
            terms[index]?.meansResource?.(type, id) === true ? 'yes' : 'no';
          if (evaluateCompound(expression, verdictOn) === 'yes') meant.add(id);
        }
      }
      return meant;
    },
  };
}

function broken(problem: string): CompiledTarget {
  return {
    terms: [],
    problem,
    test: () => 'no',
    isPossible: () => false,
    isEntitled: () => false,
    resourcesMeant: () => new Set(),
  };
}

function tryToParse(words: readonly string[]): CompoundExpression | string {
  try {
    return parseCompound(words);
  } catch (error) {
    if (error instanceof SyntaxError) return error.message;
    throw error;
  }
}

type Term = Extract<CompoundExpression, { kind: 'term' }>;

function termsOf(expression: CompoundExpression): readonly Term[] {
  if (expression.kind === 'term') return [expression];
  return expression.kind === 'not' ? termsOf(expression.of) : expression.of.flatMap(termsOf);
}

/** `X@…`, with one more character as delimiter where that makes sense. */
const wordForm = /^(?:([GPIJLNSERT])((?<=[GPIJ]).)?@)?(.+)$/su;

/** The letters of compound expressions besides `T` and `N`; `R` needs a server of ranges. */
const letters: Readonly<Record<string, Exclude<TargetType, 'compound'>>> = {
  G: 'grain',
  P: 'grain_pcre',
  I: 'pillar',
  J: 'pillar_pcre',
  L: 'list',
  S: 'ipcidr',
  E: 'pcre',
};

class TermCompiler {
  readonly #compilePattern: PatternCompiler;
  readonly #isPillarExact: boolean;
  readonly #groupOf: CompileTargetOptions['groupOf'];

  constructor(compilePattern: PatternCompiler, { pillar, groupOf }: CompileTargetOptions) {
    this.#compilePattern = compilePattern;
    this.#isPillarExact = pillar === 'exact';
    this.#groupOf = groupOf;
  }

  /** `undefined` for a letter that is not served. */
  compileWord(word: string): TargetTerm | undefined {
    const [, letter, delimiter = ':', rest = word] = wordForm.exec(word) ?? [];
    if (letter === undefined) return this.compile('glob', word, ':');
    if (letter === 'T') return resourceTerm(word, rest);
    if (letter === 'N') return this.#groupOf && groupTerm(word, this.#groupOf(rest));
    const type = letters[letter];
    return type && { ...this.compile(type, rest, delimiter), text: word };
  }

  compile(
    type: Exclude<TargetType, 'compound'>,
    tgt: string | readonly string[],
    delimiter: string,
  ): TargetTerm {
    const text = typeof tgt === 'string' ? tgt : tgt.join(',');
    switch (type) {
      case 'list':
        return listTerm(text, tgt);
      case 'glob':
        return idTerm(text, compileGlob(text));
      case 'pcre':
        return idTerm(text, this.#compilePattern(text));
      case 'grain':
        return factTerm(text, 'grains', compileFactMatch(text, delimiter, compileGlob));
      case 'grain_pcre':
        return factTerm(text, 'grains', compileFactMatch(text, delimiter, this.#compilePattern));
      case 'pillar':
        return this.#pillarTerm(text, delimiter, compileGlob);
      case 'pillar_exact':
        return this.#pillarTerm(text, delimiter, compileEqual);
      case 'pillar_pcre':
        return this.#pillarTerm(text, delimiter, this.#compilePattern);
      case 'ipcidr':
        return addressTerm(text);
    }
  }

  #pillarTerm(text: string, delimiter: string, compile: PatternCompiler): TargetTerm {
    const compiler = this.#isPillarExact ? compileEqual : compile;
    const isPattern = compile !== compileEqual && (compile !== compileGlob || /[*?[]/.test(text));
    const term = factTerm(text, 'pillar', compileFactMatch(text, delimiter, compiler));
    return { ...term, isPillarPattern: isPattern };
  }
}

function compileEqual(wanted: string): (text: string) => boolean {
  return (text) => text === wanted;
}

const byId = { isSelfTold: false, isPillarPattern: false } as const;

function idTerm(text: string, matches: (id: string) => boolean): TargetTerm {
  return { ...byId, text, ids: [], test: ({ id }) => (matches(id) ? 'yes' : 'no') };
}

/** Text is split at commas without trimming. */
function listTerm(text: string, tgt: string | readonly string[]): TargetTerm {
  const ids = new Set(typeof tgt === 'string' ? tgt.split(',').filter((id) => id !== '') : tgt);
  return { ...byId, text, ids: [...ids], test: ({ id }) => (ids.has(id) ? 'yes' : 'no') };
}

function factTerm(
  text: string,
  kind: 'grains' | 'pillar',
  matches: (facts: FactSource) => boolean,
): TargetTerm {
  return {
    text,
    ids: [],
    isSelfTold: kind === 'grains',
    isPillarPattern: false,
    test: ({ facts }) => {
      const source = facts[kind];
      if (source === undefined) return 'unknown';
      return matches(source) ? 'yes' : 'no';
    },
  };
}

function groupTerm(text: string, group: CompiledTarget | undefined): TargetTerm {
  return {
    text,
    ids: [],
    isSelfTold: group?.terms.some(({ isSelfTold }) => isSelfTold) ?? false,
    isPillarPattern: group?.terms.some(({ isPillarPattern }) => isPillarPattern) ?? false,
    test: (candidate) => group?.test(candidate) ?? 'no',
  };
}

/** `type`, or `type:id`: the minions that manage such resources. */
function resourceTerm(text: string, wanted: string): TargetTerm {
  const [type = '', ...rest] = wanted.split(':');
  const id = rest.length === 0 ? undefined : rest.join(':');
  return {
    text,
    ids: [],
    isSelfTold: true,
    isPillarPattern: false,
    test: ({ resources }) => {
      const managed = resources?.get(type);
      return managed !== undefined && (id === undefined || managed.has(id)) ? 'yes' : 'no';
    },
    meansResource: (ofType, ofId) => ofType === type && (id === undefined || ofId === id),
  };
}

/** What is no address means nobody, also of those whose facts are not known. */
function addressTerm(text: string): TargetTerm {
  const network = parseNetwork(text);
  if (network === undefined) {
    return { text, ids: [], isSelfTold: true, isPillarPattern: false, test: () => 'no' };
  }
  return factTerm(text, 'grains', (grains) =>
    containsAny(network, grains.get(`ipv${network.version}`)),
  );
}

/** Whether one of a minion's addresses, as its grains list them, is in the network. */
function containsAny(network: IpInterface, addresses: WireValue | undefined): boolean {
  const list = Array.isArray(addresses) ? addresses : [addresses];
  return list.some((text) => {
    const address = typeof text === 'string' ? parseInterface(text) : undefined;
    return address !== undefined && !address.isNetwork && isInNetwork(address, network);
  });
}
