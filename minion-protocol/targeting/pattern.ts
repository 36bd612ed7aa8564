import { RE2JS } from 're2js';
import type { WorkMeter } from '#runtime';
import { backtrackingDialect, linearDialect } from '#template/python/regex-dialect.ts';
import { matchingSteps, maxMatchingSteps } from '#template/python/regex-size.ts';
import { translatePythonRegex } from '#template/python/regex-translation.ts';

/** Function that returns whether a text matches a pattern. */
export type TextMatcher = (text: string) => boolean;

/**
 * Function that compiles a regular expression of Python. As with `re.match`, it must match at the
 * start of the text [WIRE 12.1].
 * @param meter - counts the steps of compiling and of matching
 * @throws SyntaxError with the reason
 */
export type PatternCompiler = (pattern: string, meter?: WorkMeter) => TextMatcher;

/** A compiled regular expression, and the kind of engine that it needs. */
export type CompiledPattern =
  | {
      readonly kind: 'linear';
      /** Matches in time proportional to the length of the text, for any expression. */
      readonly test: TextMatcher;
    }
  | {
      /** The expression has lookaround or back-references. Its running time is unbounded. */
      readonly kind: 'backtracking';
      /**
       * Source for `new RegExp(source, flags)`. The flags include `y` (sticky), so that the
       * expression matches only at the start of the text.
       */
      readonly source: string;
      readonly flags: string;
    };

const matching = 'matching of a regular expression';

/**
 * Compiles a Python expression for RE2, which has linear running time. If the expression needs
 * backtracking, returns its source for `RegExp` instead.
 * @param meter - limits the size of the program, and counts the steps of compiling and of matching
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
 * Compiles an expression that the operator has configured. Returns a function that tests whether
 * the expression matches anywhere in a text, like Python's `re.search`. Expressions that need
 * backtracking are allowed, because the operator is trusted.
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

/**
 * Compiles an expression of the operator for texts from outside the master. Returns a function that
 * tests whether the expression matches anywhere in a text, like Python's `re.search`, in linear
 * time.
 * @param spend - called with the steps of a match before the match
 * @throws SyntaxError with the reason, also for lookaround and back-references
 */
export function compileLinearSearch(pattern: string, spend: (steps: number) => void): TextMatcher {
  const { source, ignoreCase, needsBacktracking, size } = translatePythonRegex(
    pattern,
    linearDialect,
  );
  if (needsBacktracking) throw needsLinear();
  const regex = compileRe2(source, ignoreCase);
  const stepsOf = matchingSteps(size);
  return (text) => {
    spend(stepsOf(text.length));
    return regex.matcher(text).find();
  };
}

/**
 * Compiles patterns that RE2 supports. Their running time is linear.
 * @throws SyntaxError for lookaround and back-references
 */
export const compileLinearPattern: PatternCompiler = (pattern, meter) => {
  const compiled = compilePattern(pattern, meter);
  if (compiled.kind === 'linear') return compiled.test;
  throw needsLinear();
};

/**
 * Compiles an expression that must match the whole text. Access rules use such expressions.
 * @throws SyntaxError with the reason, also for lookaround and back-references
 */
export function compileWholePattern(pattern: string): TextMatcher {
  const { source, ignoreCase, needsBacktracking } = translatePythonRegex(pattern, linearDialect);
  if (needsBacktracking) throw needsLinear();
  const regex = compileRe2(source, ignoreCase);
  return (text) => regex.matches(text);
}

function needsLinear(): SyntaxError {
  return new SyntaxError(
    'lookaround and back-references are not supported in this regular expression',
  );
}

function compileBacktracking(pattern: string): Extract<CompiledPattern, { kind: 'backtracking' }> {
  const { source, ignoreCase } = translatePythonRegex(pattern, backtrackingDialect);
  const flags = ignoreCase ? 'iuy' : 'uy';
  try {
    RegExp(source, flags);
  } catch (error) {
    throw new SyntaxError(
      'the regular expression is invalid, or combines features that are not supported together',
      {
        cause: error,
      },
    );
  }
  return { kind: 'backtracking', source, flags };
}

function describe(error: unknown): string {
  const isKnown = error instanceof Error && 'getDescription' in error;
  const description = isKnown ? error.message.split(':')[1]?.trim() : undefined;
  return description ?? 'the regular expression is invalid';
}
