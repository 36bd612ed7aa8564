import { PolicyError } from './errors.ts';
import type { PolicySyntax, TextTest } from './policy-syntax.ts';
import type { ArgumentPattern, RuleAction, TextPattern, TextPatterns } from './rule.ts';
import type { Call } from './types.ts';

/** Regular expressions that match every text. */
const matchAllPatterns: ReadonlySet<string> = new Set(['.*', '.+', '^.*$', '.*$', '^.*', '^.+$']);

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
 * Compiles conditions on the arguments of a call. In a rule that denies, a pattern for a keyword
 * argument also applies to positional arguments, and the reverse, because a minion's function can
 * accept an argument in either form.
 * @throws PolicyError ERR_POLICY_PATTERN
 */
export function compileCondition(
  { args = [], kwargs = {} }: ArgumentPattern,
  { action, effect }: { readonly action: RuleAction; readonly effect: 'allow' | 'deny' },
  syntax: PolicySyntax,
  place: RuleField,
): (call: Call) => boolean {
  const compile = (pattern: TextPattern | null): ArgumentTest => {
    const test = pattern === null ? () => true : compileText(pattern, syntax, place);
    // A pattern for any value would match any argument in the other form.
    const isOpen = pattern === null || (action === 'publish' && matchesAll(pattern));
    const isMetInOtherForm = effect === 'deny' && !isOpen;
    return (given, others) =>
      (given !== undefined && test(given)) || (isMetInOtherForm && others().some(test));
  };
  const byPlace = args.map(compile);
  const byName = Object.entries(kwargs).map(([name, pattern]) => [name, compile(pattern)] as const);
  return (call) =>
    byPlace.every((test, index) => test(call.args[index], () => [...call.kwargs.values()])) &&
    byName.every(([name, test]) => test(call.kwargs.get(name), () => call.args));
}

/** Whether a pattern matches every text. */
export function matchesAll(pattern: TextPattern): boolean {
  return typeof pattern === 'string' ? pattern === '*' : matchAllPatterns.has(pattern.regex);
}

/** Test of an argument. `others` returns the arguments that the call passes in the other form. */
type ArgumentTest = (given: string | undefined, others: () => readonly string[]) => boolean;

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
