/** Patterns of a rule, compiled once. */

import { PolicyError } from './errors.ts';
import type { ArgumentPattern, TextPattern, TextPatterns } from './rule.ts';
import type { Call, Subject } from './types.ts';

/** Where a pattern stands. */
export interface RuleField {
  readonly rule: string;
  readonly field: string;
}

/** Texts whose answer is remembered for an expression: names of functions are few. */
const maxRemembered = 512;
const maxRememberedLength = 256;

/** @throws PolicyError ERR_POLICY_PATTERN */
export function compileTexts(
  patterns: TextPatterns,
  syntax: Pick<PolicySyntax, 'glob' | 'regex'>,
  place: RuleField,
): TextTest {
  const list: readonly TextPattern[] = asList(patterns);
  if (list.includes('*')) return () => true;
  const [first, ...more] = list.map((pattern) => compileText(pattern, syntax, place));
  if (first === undefined) return () => false;
  return more.length === 0 ? first : (text) => first(text) || more.some((matches) => matches(text));
}

/** @throws PolicyError ERR_POLICY_PATTERN */
function compileText(
  pattern: TextPattern,
  syntax: Pick<PolicySyntax, 'glob' | 'regex'>,
  place: RuleField,
): TextTest {
  return orPatternError(place, () =>
    typeof pattern === 'string'
      ? compileGlob(pattern, syntax)
      : memoizeTest(syntax.regex(pattern.regex)),
  );
}

/**
 * A glob that first looks at the ends of a text: of a thousand that are tried, most are not it.
 * @throws SyntaxError
 */
function compileGlob(pattern: string, { glob }: Pick<PolicySyntax, 'glob'>): TextTest {
  const matches = glob(pattern);
  const begin = pattern.replace(/[*?[].*$/s, '');
  if (begin === pattern) return matches;
  const end = /[^*?[\]]*$/.exec(pattern)?.[0] ?? '';
  return (text) => text.startsWith(begin) && text.endsWith(end) && matches(text);
}

/** @throws PolicyError ERR_POLICY_PATTERN */
export function compileArguments(
  conditions: readonly ArgumentPattern[] | undefined,
  syntax: PolicySyntax,
  place: RuleField,
): (call: Call) => boolean {
  if (conditions === undefined) return () => true;
  const tests = conditions.map((condition) => compileCondition(condition, syntax, place));
  return (call) => tests.some((meets) => meets(call));
}

function compileCondition(
  { args = [], kwargs = {} }: ArgumentPattern,
  syntax: PolicySyntax,
  place: RuleField,
): (call: Call) => boolean {
  const compile = (pattern: TextPattern | null): TextTest =>
    pattern === null ? () => true : compileText(pattern, syntax, place);
  const byPlace = args.map(compile);
  const byName = Object.entries(kwargs).map(([name, pattern]) => [name, compile(pattern)] as const);
  const isMet = (test: TextTest, text: string | undefined): boolean =>
    text !== undefined && test(text);
  return (call) =>
    byPlace.every((test, index) => isMet(test, call.args[index])) &&
    byName.every(([name, test]) => isMet(test, call.kwargs.get(name)));
}

/** What cannot be read is refused with its place. */
export function orPatternError<T>(place: RuleField, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new PolicyError('ERR_POLICY_PATTERN', place, error.message, { cause: error });
  }
}

export function asList(patterns: TextPatterns): readonly TextPattern[] {
  return Array.isArray(patterns) ? patterns : [patterns as TextPattern]; // isArray knows no readonly
}

/** Patterns as an operator wrote them, for one line of text. */
export function describeTexts(patterns: TextPatterns): string {
  return asList(patterns)
    .map((pattern) => (typeof pattern === 'string' ? pattern : pattern.regex))
    .join(', ');
}

function memoizeTest(test: TextTest): TextTest {
  const known = new Map<string, boolean>();
  return (text) => {
    const answer = known.get(text);
    if (answer !== undefined) return answer;
    const fresh = test(text);
    if (text.length <= maxRememberedLength) {
      if (known.size >= maxRemembered) known.clear();
      known.set(text, fresh);
    }
    return fresh;
  };
}

/** A glob that means this text alone; in a tag, placeholders in it mean nothing either. */
export function literalGlob(text: string): string {
  return text.replace(/[*?[]|(?<=\$)\{/g, (character) => `[${character}]`);
}

// Index keys: literal pieces that every text which a pattern matches contains.

/** One pattern of a rule, as an index sees it. */
export type RuleIndexKey =
  /** It means this text alone. */
  | { readonly kind: 'literal'; readonly text: string }
  /** Whatever it means has all of these in it; none of them is empty. */
  | { readonly kind: 'pieces'; readonly pieces: readonly string[] }
  | { readonly kind: 'any' };

/** What a glob or an expression is found by. */
export function indexKeyOf(pattern: TextPattern): RuleIndexKey {
  if (typeof pattern !== 'string') return { kind: 'any' };
  return /[*?[]/.test(pattern) ? indexKeyOfGlobs([pattern]) : { kind: 'literal', text: pattern };
}

/** What globs are found by that stand in a text one behind the other. */
function indexKeyOfGlobs(globs: readonly string[]): RuleIndexKey {
  // A set, or a wildcard; what is no set after all is not looked for either.
  const pieces = globs.flatMap((glob) => glob.split(/\[!?\]?[^\]]*\]|[*?[]/));
  const some = pieces.filter((piece) => piece !== '');
  return some.length === 0 ? { kind: 'any' } : { kind: 'pieces', pieces: some };
}

// Tag patterns: globs in which `${minion.id}` and `${pillar:path}` stand for values of the sender.
// Inserted values are literal text, and nothing is compiled for them: wildcards stand only after the
// last placeholder.

/** A tag pattern that was read. */
export interface TagPattern {
  readonly key: RuleIndexKey;
  readonly matches: (tag: string, subject: Subject) => boolean;
}

type Part = (id: string) => string | undefined;

const placeholder = /\$\{([^}]*)\}/g;
const wildcard = /[*?[]/;

/** @throws PolicyError ERR_POLICY_PATTERN */
export function compileTagPattern(
  pattern: string,
  world: PolicyEnvironment,
  place: RuleField,
): TagPattern {
  const { parts, rest, literals } = split(pattern, world, place);
  const test = orPatternError(place, () => compileGlob(rest, world));
  if (parts.length === 0) return { key: indexKeyOf(pattern), matches: test };
  const isWhole = rest === '';
  return {
    key: indexKeyOfGlobs([...literals, rest]),
    matches: (tag, subject) => {
      const own = subject.kind === 'minion' ? expand(parts, subject.id) : undefined;
      if (own === undefined) return false;
      return isWhole ? tag === own : tag.startsWith(own) && test(tag.slice(own.length));
    },
  };
}

function expand(parts: readonly Part[], id: string): string | undefined {
  let text = '';
  for (const part of parts) {
    const value = part(id);
    if (value === undefined || value === '') return undefined;
    text += value;
  }
  return text;
}

function split(
  pattern: string,
  world: PolicyEnvironment,
  place: RuleField,
): {
  readonly parts: readonly Part[];
  readonly rest: string;
  /** What stands between the placeholders. */
  readonly literals: readonly string[];
} {
  const parts: Part[] = [];
  const literals: string[] = [];
  let end = 0;
  for (const found of pattern.matchAll(placeholder)) {
    const literal = pattern.slice(end, found.index);
    if (wildcard.test(literal)) {
      throw tagPatternError(place, 'wildcards stand only after the last placeholder');
    }
    literals.push(literal);
    if (literal !== '') parts.push(() => literal);
    parts.push(readPlaceholder(found[1] ?? '', world, place));
    end = found.index + found[0].length;
  }
  return { parts, rest: pattern.slice(end), literals };
}

function readPlaceholder(name: string, { pillarOf }: PolicyEnvironment, place: RuleField): Part {
  if (name === 'minion.id') return (id) => id;
  const path = name.startsWith('pillar:') ? name.slice('pillar:'.length) : '';
  if (path === '')
    throw tagPatternError(place, 'a placeholder is minion.id, or pillar: and a path');
  return (id) => pillarOf(id, path);
}

function tagPatternError(place: RuleField, problem: string): PolicyError {
  return new PolicyError('ERR_POLICY_PATTERN', place, problem);
}

// Syntax that the caller supplies, because this room imports nothing of ours.

/** Whether a text is one of those that a pattern means. */
export type TextTest = (text: string) => boolean;

/** Whether a target means a minion. */
export interface MinionTest {
  /** For certain, and not by its own word alone: for rules that permit. */
  readonly isEntitled: (id: string) => boolean;
  /** For certain, be it by its own word alone: for what makes a rule that permits narrower. */
  readonly claims: (id: string) => boolean;
  /** Or perhaps: for rules that forbid. */
  readonly mayMean: (id: string) => boolean;
}

/** How patterns are read. Each throws a SyntaxError with the reason. */
export interface PolicySyntax {
  readonly glob: (pattern: string) => TextTest;
  /** Of whole texts, by an engine that cannot explode. */
  readonly regex: (pattern: string) => TextTest;
  /** Of any part of a text, by an engine that cannot explode. */
  readonly search: (pattern: string) => TextTest;
  /** @param tgtType Salt's name of the target type */
  readonly target: (tgt: string, tgtType: string) => MinionTest;
}

/** What decisions look at besides the question. */
export interface PolicyEnvironment extends PolicySyntax {
  /** A text or number in the pillar of a minion, by its path (`a:b`); else `undefined`. */
  readonly pillarOf: (id: string, path: string) => string | undefined;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}
