/** Who a publication is meant for [WIRE 12.1; salt/matchers/*.py]: compiled once, then asked. */

import type { WorkMeter } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import {
  type IpInterface,
  isInNetwork,
  parseInterface,
  parseNetwork,
} from '#template/python/ip-address.ts';
import type { WireValue } from '../payload.ts';
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
interface TargetTerm {
  /** As it was written. */
  readonly text: string;
  /** The ids that it lists and wants; empty for other conditions. */
  readonly ids: readonly string[];
  /** The only ids that it can match. Absent: it may match any id. */
  readonly names?: readonly string[];
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
  /** Whether the target, or an alternative in it, goes by grains alone and entitles nobody. */
  readonly restsOnGrains: boolean;
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
  /** Counts the steps of compiling and of each test; needed if the target comes from outside. */
  readonly meter?: WorkMeter | undefined;
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
  const steps = compileTargetInSteps(target, compilePattern, options);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** Compiles a target as {@link compileTarget} does, with a pause after each condition. */
export function* compileTargetInSteps(
  target: TargetExpression,
  compilePattern: PatternCompiler,
  options: CompileTargetOptions,
): Generator<undefined, CompiledTarget, void> {
  const compiler = new TermCompiler(compilePattern, options);
  if (target.tgtType !== 'compound') {
    const term = compiler.compile(target.tgtType, target.tgt, target.delimiter ?? ':');
    const only = { kind: 'term', word: term.text, index: 0, isExcluded: false } as const;
    return ready([term], only, options.meter);
  }
  const { meter } = options;
  if (typeof target.tgt === 'string') meter?.spend('a compound target', target.tgt.length);
  const expression = tryToParse(splitTargetWords(target.tgt), meter);
  if (typeof expression === 'string') return broken(expression);
  const terms: TargetTerm[] = [];
  for (const { word, isExcluded } of termsOf(expression)) {
    const term = compiler.compileWord(word);
    if (term === undefined) return broken(`"${word}": this kind of target is not served`);
    terms.push(isExcluded ? withoutNames(term) : term);
    yield undefined;
  }
  return ready(terms, expression, meter);
}

/** A term that takes minions away: what is left may be any id. */
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
  const verified = filterTerms(expression, (index) => terms[index]?.isSelfTold === false);
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
      evaluateCompound(expression, (index) => (terms[index]?.isSelfTold ? 'yes' : 'no')) === 'yes',
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
  readonly #meter: WorkMeter | undefined;

  constructor(compilePattern: PatternCompiler, { pillar, groupOf, meter }: CompileTargetOptions) {
    this.#compilePattern = compilePattern;
    this.#meter = meter;
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
        return listTerm(text, tgt, this.#meter);
      case 'glob':
        return {
          ...idTerm(text, compileGlob(text, this.#meter)),
          ...(isPattern(text) ? {} : { names: [text] }),
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
      compile !== compileEqual && (compile !== compileGlob || isPattern(text));
    const term = factTerm(text, 'pillar', this.#factMatch(text, delimiter, compiler));
    return { ...term, isPillarPattern };
  }
}

/** Whether a glob has wildcards. */
function isPattern(glob: string): boolean {
  return /[*?[]/.test(glob);
}

function compileEqual(wanted: string): (text: string) => boolean {
  return (text) => text === wanted;
}

/** A term that names no ids and depends on nothing that a minion says of itself. */
const plainTerm = { ids: [], isSelfTold: false, isPillarPattern: false } as const;

function idTerm(text: string, matches: (id: string) => boolean): TargetTerm {
  return { ...plainTerm, text, test: ({ id }) => (matches(id) ? 'yes' : 'no') };
}

/** Text is split at commas without trimming. */
function listTerm(
  text: string,
  tgt: string | readonly string[],
  meter: WorkMeter | undefined,
): TargetTerm {
  meter?.spend('a list of ids', text.length);
  const ids = new Set(typeof tgt === 'string' ? tgt.split(',').filter((id) => id !== '') : tgt);
  const names = [...ids];
  return { ...plainTerm, text, ids: names, names, test: ({ id }) => (ids.has(id) ? 'yes' : 'no') };
}

function factTerm(
  text: string,
  kind: 'grains' | 'pillar',
  matches: (facts: FactSource) => boolean,
): TargetTerm {
  return {
    ...plainTerm,
    text,
    isSelfTold: kind === 'grains',
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
    isSelfTold: group.terms.some(({ isSelfTold }) => isSelfTold),
    isPillarPattern: group.terms.some(({ isPillarPattern }) => isPillarPattern),
    test: (candidate) => group.test(candidate),
  };
}

/** `type`, or `type:id`: the minions that manage such resources. */
function resourceTerm(text: string, wanted: string): TargetTerm {
  const [type = '', ...rest] = wanted.split(':');
  const id = rest.length === 0 ? undefined : rest.join(':');
  return {
    ...plainTerm,
    text,
    isSelfTold: true,
    test: ({ resources }) => {
      const managed = resources?.get(type);
      return managed !== undefined && (id === undefined || managed.has(id)) ? 'yes' : 'no';
    },
    meansResource: (ofType, ofId) => ofType === type && (id === undefined || ofId === id),
  };
}

/** What is no address means nobody, also of those whose facts are not known. */
function addressTerm(text: string, meter: WorkMeter | undefined): TargetTerm {
  meter?.spend('an address', text.length);
  const network = parseNetwork(text);
  if (network === undefined) {
    return { ...plainTerm, text, isSelfTold: true, test: () => 'no' };
  }
  return factTerm(text, 'grains', (grains) =>
    containsAny(network, grains.get(`ipv${network.version}`), meter),
  );
}

/** Whether one of a minion's addresses, as its grains list them, is in the network. */
function containsAny(
  network: IpInterface,
  addresses: WireValue | undefined,
  meter: WorkMeter | undefined,
): boolean {
  const list = Array.isArray(addresses) ? addresses : [addresses];
  return list.some((text) => {
    meter?.spend('addresses of a minion', 20 + (typeof text === 'string' ? text.length : 0));
    const address = typeof text === 'string' ? parseInterface(text) : undefined;
    return address !== undefined && !address.isNetwork && isInNetwork(address, network);
  });
}
