/** Compiles targets and matches minions against them [WIRE 12.1; salt/matchers/*.py]. */

import type { WorkMeter } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import {
  type IpInterface,
  isInNetwork,
  parseInterface,
  parseNetwork,
} from '#template/python/ip-address.ts';
import type { WireValue } from '../wire-value.ts';
import {
  type CompoundExpression,
  evaluateCompound,
  filterTerms,
  type MatchResult,
  parseCompound,
  splitTargetWords,
} from './compound.ts';
import { compileFactMatch } from './fact-match.ts';
import type { FactSource, MinionFacts, MinionResources } from './facts.ts';
import { compileLinearPattern, type PatternCompiler } from './pattern.ts';
import { requireTargetSize } from './target-size.ts';

/** Target types that can be published to minions. */
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

/** A target type that can be published to minions. */
export type TargetType = (typeof targetTypes)[number];

/** A target in the form in which it is published. */
export interface TargetExpression {
  readonly tgtType: TargetType;
  /**
   * Expression of the target. For `list`, it may be a list of ids; for `compound`, it may be a list
   * of words.
   */
  readonly tgt: string | readonly string[];
  /** Delimiter between the keys of grains or pillar. Not used in `compound`. Default: `:`. */
  readonly delimiter?: string;
}

/** A minion with which a target is compared. */
export interface TargetCandidate {
  readonly id: string;
  readonly facts: MinionFacts;
  /** Resources that the minion manages besides itself. Default: none. */
  readonly resources?: MinionResources | undefined;
}

/** One condition of a target. */
interface TargetTerm {
  /** The condition as it was written. */
  readonly text: string;
  /**
   * The ids that the condition lists. Empty for conditions of other kinds, and for conditions after
   * `not`.
   */
  readonly ids: readonly string[];
  /**
   * Ids that the condition may match. It matches no other ids. Absent if the condition can match
   * any id.
   */
  readonly names?: readonly string[];
  /**
   * Whether the condition depends on grains or resources, which minions report about themselves.
   */
  readonly isSelfReported: boolean;
  /**
   * Whether the condition was written as a pattern for pillar values. This remains true if the
   * pattern was compiled to an exact comparison.
   */
  readonly isPillarPattern: boolean;
  test(candidate: TargetCandidate): MatchResult;
  /**
   * Whether the condition matches this resource. Absent if the condition is not about resources.
   */
  readonly meansResource?: (type: string, id: string) => boolean;
}

/** A target that can be matched against minions. */
export interface CompiledTarget {
  readonly terms: readonly TargetTerm[];
  /** Reason why the expression is invalid. An invalid target matches no minion. */
  readonly problem: string | undefined;
  /**
   * Returns whether the target matches this minion. The result is `unknown` if the master has not
   * stored the grains or pillar that decide it.
   */
  test(candidate: TargetCandidate): MatchResult;
  /**
   * Whether the target may match this minion. Conditions on unknown grains or pillar count as true.
   * Salt's master resolves targets in this way when it publishes a job [WIRE 12.2].
   */
  isPossible(candidate: TargetCandidate): boolean;
  /**
   * Whether an access rule with this target applies to the minion. The target must match both with
   * all its conditions, and without the conditions on grains and resources. A minion can therefore
   * lose a right by its grains, but not gain one. If the master lacks data that the target needs,
   * the result is `false`.
   */
  isEntitled(candidate: TargetCandidate): boolean;
  /**
   * Whether the target, or one of its alternatives, can match by conditions on grains or resources
   * alone. {@link isEntitled} ignores such a match, because minions themselves report their grains
   * and resources.
   */
  readonly restsOnGrains: boolean;
  /**
   * Returns the ids of the minion's resources that the target matches [WIRE 23.3]. The minion then
   * returns the results of these resources, and none of its own. The result is empty if any
   * condition of the target is not about resources.
   */
  resourcesMeant(candidate: TargetCandidate): ReadonlySet<string>;
}

/** Options of {@link compileTarget}. */
export interface CompileTargetOptions {
  /**
   * Comparison with pillar values. With `exact`, every condition on pillar requires equality. As in
   * Salt, this is used for requests of minions, so that patterns cannot find out another minion's
   * pillar. Default: `pattern`.
   */
  readonly pillar?: 'pattern' | 'exact';
  /**
   * Returns the target that `N@name` refers to. If it returns `undefined`, the condition matches no
   * minion. Default: `N@` is not supported, because minions do not have the definitions of
   * nodegroups.
   */
  readonly groupOf?: (name: string) => CompiledTarget | undefined;
  /**
   * Budget for the steps of compiling and of each match. Omit it only for trusted targets. Default:
   * steps are not counted.
   */
  readonly meter?: WorkMeter | undefined;
}

/** Whether a text is a target type that can be published to minions. */
export function isTargetType(text: string): text is TargetType {
  return targetTypes.some((type) => type === text);
}

/**
 * Compiles a target. As in Salt, an invalid compound expression matches no minion.
 * @param compilePattern - compiler for regular expressions; default: {@link compileLinearPattern}
 * @throws SyntaxError with the reason, for an invalid regular expression
 */
export function compileTarget(
  target: TargetExpression,
  compilePattern: PatternCompiler = compileLinearPattern,
  options: CompileTargetOptions = {},
): CompiledTarget {
  const steps = compileTargetInSteps(target, compilePattern, options);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/**
 * Compiles a target like {@link compileTarget}, and pauses after each condition of a compound
 * expression and between the parts of a long list.
 */
export function* compileTargetInSteps(
  target: TargetExpression,
  compilePattern: PatternCompiler,
  options: CompileTargetOptions,
): Generator<undefined, CompiledTarget, void> {
  const compiler = new TermCompiler(compilePattern, options);
  const { meter } = options;
  if (target.tgtType !== 'compound') {
    const term = yield* compiler.compile(target.tgtType, target.tgt, target.delimiter ?? ':');
    const only = { kind: 'term', word: term.text, index: 0, isExcluded: false } as const;
    return ready([term], only, meter);
  }
  if (meter !== undefined) requireTargetSize(target.tgt, 'compound', meter);
  if (typeof target.tgt === 'string') meter?.spend('a compound target', target.tgt.length);
  const expression = tryToParse(splitTargetWords(target.tgt, meter), meter);
  if (typeof expression === 'string') return broken(expression);
  const terms: TargetTerm[] = [];
  for (const { word, isExcluded } of termsOf(expression)) {
    const term = yield* compiler.compileWord(word);
    if (term === undefined) return broken(`"${word}": this type of target is not supported`);
    terms.push(isExcluded ? withoutNames(term) : term);
    yield undefined;
  }
  return ready(terms, expression, meter);
}

/**
 * Returns a condition that follows `not`, without its list of ids. The target excludes these ids,
 * so they must not be taken for ids that it can match.
 */
function withoutNames({ names: _names, ...term }: TargetTerm): TargetTerm {
  return { ...term, ids: [] };
}

function ready(
  terms: readonly TargetTerm[],
  expression: CompoundExpression,
  meter: WorkMeter | undefined,
): CompiledTarget {
  const verdictOf = (candidate: TargetCandidate, index: number): MatchResult => {
    meter?.spend('evaluation of a target', 2);
    return terms[index]?.test(candidate) ?? 'no';
  };
  const verified = filterTerms(expression, (index) => terms[index]?.isSelfReported === false);
  const isByResources = terms.every(({ meansResource }) => meansResource !== undefined);
  const holds = (part: CompoundExpression, candidate: TargetCandidate): boolean =>
    evaluateCompound(part, (index) => verdictOf(candidate, index)) === 'yes';
  return {
    terms,
    problem: undefined,
    test: (candidate) => evaluateCompound(expression, (index) => verdictOf(candidate, index)),
    isPossible: (candidate) =>
      evaluateCompound(expression, (index) =>
        verdictOf(candidate, index) === 'no' ? 'no' : 'yes',
      ) === 'yes',
    restsOnGrains:
      verified === undefined ||
      evaluateCompound(expression, (index) => (terms[index]?.isSelfReported ? 'yes' : 'no')) ===
        'yes',
    isEntitled: (candidate) =>
      verified !== undefined && holds(verified, candidate) && holds(expression, candidate),
    resourcesMeant: ({ resources }) => {
      const meant = new Set<string>();
      for (const [type, ids] of isByResources ? (resources ?? []) : []) {
        for (const id of ids) {
          const verdictOn = (index: number): MatchResult => {
            meter?.spend('evaluation of a target', 2);
            return terms[index]?.meansResource?.(type, id) === true ? 'yes' : 'no';
          };
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
    restsOnGrains: false,
    resourcesMeant: () => new Set(),
  };
}

function tryToParse(
  words: readonly string[],
  meter: WorkMeter | undefined,
): CompoundExpression | string {
  try {
    return parseCompound(words, meter);
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

/**
 * Form of one condition in a compound expression: a glob of ids, or `X@` and an expression. The
 * letter `X` selects the target type. For grains and pillar, a delimiter can stand between `X` and
 * `@`.
 */
const wordForm = /^(?:([GPIJLNSERT])((?<=[GPIJ]).)?@)?(.+)$/su;

/**
 * Target types by the letters of compound expressions, except `T` and `N`. Salt also has `R`, which
 * needs a range server.
 */
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
  readonly #meter: WorkMeter | undefined;

  constructor(compilePattern: PatternCompiler, { pillar, groupOf, meter }: CompileTargetOptions) {
    this.#compilePattern = compilePattern;
    this.#meter = meter;
    this.#isPillarExact = pillar === 'exact';
    this.#groupOf = groupOf;
  }

  /**
   * Compiles one word of a compound expression, for example `G@os:Debian`. Returns `undefined` if
   * the letter before `@` is not supported.
   */
  *compileWord(word: string): Generator<undefined, TargetTerm | undefined, void> {
    const [, letter, delimiter = ':', rest = word] = wordForm.exec(word) ?? [];
    if (letter === undefined) return yield* this.compile('glob', word, ':');
    if (letter === 'T') return resourceTerm(word, rest);
    if (letter === 'N') return this.#groupOf && groupTerm(word, this.#groupOf(rest));
    const type = letters[letter];
    return type && { ...(yield* this.compile(type, rest, delimiter)), text: word };
  }

  /**
   * Compiles one condition of any type except `compound`, and pauses between the parts of a long
   * list.
   */
  *compile(
    type: Exclude<TargetType, 'compound'>,
    tgt: string | readonly string[],
    delimiter: string,
  ): Generator<undefined, TargetTerm, void> {
    if (this.#meter !== undefined) requireTargetSize(tgt, type, this.#meter);
    if (type === 'list') return yield* listTerm(tgt, this.#meter);
    const text = typeof tgt === 'string' ? tgt : tgt.join(',');
    switch (type) {
      case 'glob':
        return {
          ...idTerm(text, compileGlob(text, this.#meter)),
          ...(wildcard.test(text) ? {} : { names: [text] }),
        };
      case 'pcre':
        return idTerm(text, this.#compilePattern(text, this.#meter));
      case 'grain':
        return factTerm(text, 'grains', this.#factMatch(text, delimiter, compileGlob));
      case 'grain_pcre':
        return factTerm(text, 'grains', this.#factMatch(text, delimiter, this.#compilePattern));
      case 'pillar':
        return this.#pillarTerm(text, delimiter, compileGlob);
      case 'pillar_exact':
        return this.#pillarTerm(text, delimiter, compileEqual);
      case 'pillar_pcre':
        return this.#pillarTerm(text, delimiter, this.#compilePattern);
      case 'ipcidr':
        return addressTerm(text, this.#meter);
    }
  }

  #factMatch(
    text: string,
    delimiter: string,
    compile: PatternCompiler,
  ): (facts: FactSource) => boolean {
    return compileFactMatch(text, delimiter, compile, this.#meter);
  }

  #pillarTerm(text: string, delimiter: string, compile: PatternCompiler): TargetTerm {
    const compiler = this.#isPillarExact ? compileEqual : compile;
    const isPillarPattern =
      compile !== compileEqual && (compile !== compileGlob || wildcard.test(text));
    const term = factTerm(text, 'pillar', this.#factMatch(text, delimiter, compiler));
    return { ...term, isPillarPattern };
  }
}

/** Wildcards of a glob. */
const wildcard = /[*?[]/;

function compileEqual(wanted: string): (text: string) => boolean {
  return (text) => text === wanted;
}

/**
 * Properties of a condition that lists no ids and does not depend on data that minions report about
 * themselves.
 */
const plainTerm = { ids: [], isSelfReported: false, isPillarPattern: false } as const;

function idTerm(text: string, matches: (id: string) => boolean): TargetTerm {
  return { ...plainTerm, text, test: ({ id }) => (matches(id) ? 'yes' : 'no') };
}

/** Number of ids after which the compilation of a list of ids pauses. */
const idsOfStep = 1_000;

/**
 * Compiles a list of ids, and pauses after each {@link idsOfStep} ids. A text is split at commas
 * without trimming.
 */
function* listTerm(
  tgt: string | readonly string[],
  meter: WorkMeter | undefined,
): Generator<undefined, TargetTerm, void> {
  const ids = new Set<string>();
  let count = 0;
  for (const id of typeof tgt === 'string' ? partsOf(tgt) : tgt) {
    count += 1;
    if (typeof tgt !== 'string' || id !== '') ids.add(id);
    meter?.spend('a list of ids', 10 + id.length / 8);
    if (count % idsOfStep === 0) yield undefined;
  }
  const names = [...ids];
  const text = typeof tgt === 'string' ? tgt : tgt.join(',');
  return { ...plainTerm, text, ids: names, names, test: ({ id }) => (ids.has(id) ? 'yes' : 'no') };
}

/** Yields the parts of a comma-separated text one by one. */
function* partsOf(list: string): Generator<string, void, void> {
  let start = 0;
  for (let end = list.indexOf(','); end !== -1; end = list.indexOf(',', start)) {
    yield list.slice(start, end);
    start = end + 1;
  }
  yield list.slice(start);
}

function factTerm(
  text: string,
  kind: 'grains' | 'pillar',
  matches: (facts: FactSource) => boolean,
): TargetTerm {
  return {
    ...plainTerm,
    text,
    isSelfReported: kind === 'grains',
    test: ({ facts }) => {
      const source = facts[kind];
      if (source === undefined) return 'unknown';
      return matches(source) ? 'yes' : 'no';
    },
  };
}

function groupTerm(text: string, group: CompiledTarget | undefined): TargetTerm {
  if (group === undefined) return { ...plainTerm, text, test: () => 'no' };
  return {
    ...plainTerm,
    text,
    isSelfReported: group.terms.some(({ isSelfReported }) => isSelfReported),
    isPillarPattern: group.terms.some(({ isPillarPattern }) => isPillarPattern),
    test: (candidate) => group.test(candidate),
  };
}

/**
 * Compiles `type` or `type:id`. The result matches the minions that manage a resource with this
 * type and id.
 */
function resourceTerm(text: string, wanted: string): TargetTerm {
  const [type = '', ...rest] = wanted.split(':');
  const id = rest.length === 0 ? undefined : rest.join(':');
  return {
    ...plainTerm,
    text,
    isSelfReported: true,
    test: ({ resources }) => {
      const managed = resources?.get(type);
      return managed !== undefined && (id === undefined || managed.has(id)) ? 'yes' : 'no';
    },
    meansResource: (ofType, ofId) => ofType === type && (id === undefined || ofId === id),
  };
}

/**
 * Compiles an IP address or network. If it is invalid, it matches no minion, not even minions whose
 * grains are unknown.
 */
function addressTerm(text: string, meter: WorkMeter | undefined): TargetTerm {
  meter?.spend('an address', text.length);
  const network = parseNetwork(text);
  if (network === undefined) {
    return { ...plainTerm, text, isSelfReported: true, test: () => 'no' };
  }
  return factTerm(text, 'grains', (grains) =>
    containsAny(network, grains.get(`ipv${network.version}`), meter),
  );
}

/** Whether one of the addresses in a minion's grains is in the network. */
function containsAny(
  network: IpInterface,
  addresses: WireValue | undefined,
  meter: WorkMeter | undefined,
): boolean {
  const list = Array.isArray(addresses) ? addresses : [addresses];
  return list.some((text) => {
    meter?.spend(
      'comparison with the addresses of a minion',
      20 + (typeof text === 'string' ? text.length : 0),
    );
    const address = typeof text === 'string' ? parseInterface(text) : undefined;
    return address !== undefined && !address.isNetwork && isInNetwork(address, network);
  });
}
