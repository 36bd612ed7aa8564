import { PolicyError } from './errors.ts';
import type { PolicySyntax, TextTest } from './policy-syntax.ts';
import type { ArgumentPattern, TextPattern, TextPatterns } from './rule.ts';
import type { Call } from './types.ts';

/** Rule and field that contain a pattern, for error messages. */
export interface RuleField {
  readonly rule: string;
  readonly field: string;
}

/**
 * Maximum number of cached results per expression. Minions usually use fewer different function
 * names.
 */
const maxRemembered = 512;
const maxRememberedLength = 256;

/**
 * Compiles patterns.
 * @throws PolicyError ERR_POLICY_PATTERN
 */
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

/**
 * Compiles one pattern.
 * @throws PolicyError ERR_POLICY_PATTERN
 */
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

/** Returns the text of a glob before its first wildcard. */
export function literalPrefix(glob: string): string {
  return glob.replace(/[*?[].*/s, '');
}

/**
 * Compiles a glob. The test compares both ends of the text first, because most texts do not match.
 */
export function compileGlob(pattern: string, { glob }: Pick<PolicySyntax, 'glob'>): TextTest {
  const matches = glob(pattern);
  const begin = literalPrefix(pattern);
  if (begin === pattern) return matches;
  const end = pattern.split(/[*?[\]]/).at(-1) ?? '';
  return (text) => text.startsWith(begin) && text.endsWith(end) && matches(text);
}

/**
 * Compiles conditions on arguments.
 * @throws PolicyError ERR_POLICY_PATTERN
 */
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

/**
 * Runs a function. If it throws a SyntaxError, throws a PolicyError that names the rule and the
 * field instead.
 */
export function orPatternError<T>(place: RuleField, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new PolicyError('ERR_POLICY_PATTERN', place, error.message, { cause: error });
  }
}

export function asList(patterns: TextPatterns): readonly TextPattern[] {
  return Array.isArray(patterns) ? patterns : [patterns as TextPattern]; // isArray does not narrow readonly arrays
}

/** Returns patterns on one line, as the operator wrote them. */
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

/**
 * Returns a glob that matches only this text. Placeholders in the text are escaped too, because the
 * glob may become a tag pattern.
 */
export function literalGlob(text: string): string {
  return text.replace(/[*?[]|(?<=\$)\{/g, (character) => `[${character}]`);
}
