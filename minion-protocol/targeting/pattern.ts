import { RE2JS } from 're2js';
import type { WorkMeter } from '#runtime';
import { backtrackingDialect, linearDialect } from '#template/python/regex-dialect.ts';
import { matchingSteps, maxMatchingSteps } from '#template/python/regex-size.ts';
import { translatePythonRegex } from '#template/python/regex-translation.ts';

/** Whether a text is one of those that a pattern means. */
export type TextMatcher = (text: string) => boolean;

/**
 * Makes the test of a regular expression with Python's meaning, anchored at the start only
 * (`re.match`) [WIRE 12.1].
 * @param meter counts the steps of compiling and of matching
 * @throws SyntaxError with the reason
 */
export type PatternCompiler = (pattern: string, meter?: WorkMeter) => TextMatcher;

/** What an expression needs to be run. */
export type CompiledPattern =
  | {
      readonly kind: 'linear';
      /** Takes time in proportion to the text, whatever the expression is. */
      readonly test: TextMatcher;
    }
  | {
      /** It has lookaround or back-references: running it may take for ever. */
      readonly kind: 'backtracking';
      /** For `new RegExp(source, flags)`; sticky, so that it matches at the start only. */
      readonly source: string;
      readonly flags: string;
    };

const matching = 'matching of a regular expression';

/**
 * Compiles a Python expression for the engine that cannot explode, or says how another would run
 * it.
 * @param meter bounds the program, and counts the steps of compiling and of matching
 * @throws SyntaxError with the reason
 */
export function compilePattern(pattern: string, meter?: WorkMeter): CompiledPattern {
  const { source, ignoreCase, needsBacktracking, size } = translatePythonRegex(
    pattern,
    linearDialect,
    { meter },
  );
  if (needsBacktracking) return compileBacktracking(pattern);
  const regex = compileRe2(source, ignoreCase);
  const test: TextMatcher = (text) => regex.matcher(text).lookingAt();
  if (meter === undefined) return { kind: 'linear', test };
  const stepsOf = matchingSteps(size);
  return {
    kind: 'linear',
    test: (text) => {
      const steps = stepsOf(text.length);
      if (steps > maxMatchingSteps) meter.refuse(matching, maxMatchingSteps, 'steps for one text');
      meter.spend(matching, steps);
      return test(text);
    },
  };
}

function compileRe2(source: string, ignoreCase: boolean): RE2JS {
  try {
    return RE2JS.compile(source, ignoreCase ? RE2JS.CASE_INSENSITIVE : 0);
  } catch (error) {
    throw new SyntaxError(describe(error), { cause: error });
  }
}

/**
 * Compiles an expression of the operator's own to a test whether it matches anywhere in a text
 * (`re.search`), whatever engine it needs.
 * @throws SyntaxError with the reason
 */
export function compileSearchPattern(pattern: string): TextMatcher {
  const { source, ignoreCase, needsBacktracking } = translatePythonRegex(pattern, linearDialect);
  if (needsBacktracking) {
    const { source: backtracking, flags } = compileBacktracking(pattern);
    const regex = new RegExp(backtracking, flags.replace('y', ''));
    return (text) => regex.test(text);
  }
  const regex = compileRe2(source, ignoreCase);
  return (text) => regex.matcher(text).find();
}

/** Patterns of the engine that cannot explode only. */
export const compileLinearPattern: PatternCompiler = (pattern, meter) => {
  const compiled = compilePattern(pattern, meter);
  if (compiled.kind === 'linear') return compiled.test;
  throw new SyntaxError('lookaround and back-references are not supported here');
};

/**
 * An expression that must mean the whole text, as those that give rights do.
 * @throws SyntaxError with the reason; lookaround and back-references are not taken
 */
export function compileWholePattern(pattern: string): TextMatcher {
  const { source, ignoreCase, needsBacktracking } = translatePythonRegex(pattern, linearDialect);
  if (needsBacktracking) {
    throw new SyntaxError('lookaround and back-references are not supported here');
  }
  const regex = compileRe2(source, ignoreCase);
  return (text) => regex.matches(text);
}

function compileBacktracking(pattern: string): Extract<CompiledPattern, { kind: 'backtracking' }> {
  const { source, ignoreCase } = translatePythonRegex(pattern, backtrackingDialect);
  const flags = ignoreCase ? 'iuy' : 'uy';
  try {
    RegExp(source, flags);
  } catch (error) {
    throw new SyntaxError('the expression has an error, or mixes in what is not supported', {
      cause: error,
    });
  }
  return { kind: 'backtracking', source, flags };
}

function describe(error: unknown): string {
  const isKnown = error instanceof Error && 'getDescription' in error;
  const description = isKnown ? error.message.split(':')[1]?.trim() : undefined;
  return description ?? 'the expression has an error';
}
