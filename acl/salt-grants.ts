/**
 * Parses the grants in `peer`, `peer_run` and `mine_get`: a list of functions for minions whose id
 * matches an expression. A grant may have conditions on the arguments and, for publishing, on the
 * minions [salt/utils/minions.py auth_check, __fun_check, __args_check].
 */

import { isMap } from '#runtime';

/** A regular expression written by the operator. It matches whole texts only. */
export interface GrantPattern {
  /** Source text of the expression. */
  readonly source: string;
  readonly matches: (text: string) => boolean;
}

/** Condition on the arguments of a call. An argument without a condition may have any value. */
interface ArgumentCondition {
  /**
   * Patterns of positional arguments. With `null`, the argument must be present, and may have any
   * value.
   */
  readonly args: readonly (GrantPattern | null)[];
  /**
   * Patterns of keyword arguments, by name of the argument. With `null`, the argument must be
   * present, and may have any value.
   */
  readonly kwargs: ReadonlyMap<string, GrantPattern | null>;
}

/** A function that minions or users may call, with conditions on its arguments and its minions. */
export interface FunctionGrant {
  readonly fun: GrantPattern;
  /** Alternative conditions on the arguments. Empty: any arguments. */
  readonly conditions: readonly ArgumentCondition[];
  /** Compound target that limits the grant, or `undefined` for all minions. */
  readonly within: string | undefined;
}

/** Functions that are granted to the minions whose ids match an expression. */
export interface Grant {
  readonly minion: GrantPattern;
  readonly functions: readonly FunctionGrant[];
}

/** Syntax that {@link parseGrants} uses. */
export interface GrantSyntax {
  /**
   * Compiles an expression that matches whole texts.
   * @throws SyntaxError
   */
  readonly compile: (pattern: string) => (text: string) => boolean;
  /**
   * Meaning of a map in a list of functions. `function`: the key is a function, and the value
   * contains conditions on its arguments. `target`: the key is a target, and the value contains the
   * functions that are granted for it.
   */
  readonly mapKey: 'function' | 'target';
}

/**
 * Parses the value of `peer`, `peer_run` or `mine_get`.
 * @throws SyntaxError with the reason
 */
export function parseGrants(value: unknown, syntax: GrantSyntax): Grant[] {
  return entriesOf(value, 'the option').map(([minion, functions]) => ({
    minion: toPattern(minion, syntax),
    functions: asGrantList(functions).flatMap((entry) => parseEntry(entry, syntax)),
  }));
}

/**
 * Parses one function or a list of functions, with their conditions.
 * @throws SyntaxError with the reason
 */
export function parseFunctionGrants(value: unknown, syntax: GrantSyntax): FunctionGrant[] {
  return asGrantList(value).flatMap((entry) => parseFunction(entry, undefined, syntax));
}

function parseEntry(entry: unknown, syntax: GrantSyntax): FunctionGrant[] {
  if (typeof entry === 'string' || syntax.mapKey === 'function') {
    return parseFunction(entry, undefined, syntax);
  }
  const [target, functions] = onlyEntry(entry, 'a map in the list');
  return asGrantList(functions).flatMap((one) => parseFunction(one, target, syntax));
}

function parseFunction(
  entry: unknown,
  within: string | undefined,
  syntax: GrantSyntax,
): FunctionGrant[] {
  if (typeof entry === 'string') {
    return [{ fun: toPattern(entry, syntax), conditions: [], within }];
  }
  const [fun, conditions] = onlyEntry(entry, 'a function with conditions');
  const parsed = asGrantList(conditions).map((condition) => parseCondition(condition, syntax));
  // An empty list would allow everything, although the operator wrote it as a restriction.
  if (parsed.length === 0)
    throw new SyntaxError(
      'a function with an empty list of conditions would be unrestricted; add a condition, or replace the map with the name of the function',
    );
  return [{ fun: toPattern(fun, syntax), conditions: parsed, within }];
}

function parseCondition(value: unknown, syntax: GrantSyntax): ArgumentCondition {
  const condition = new Map(entriesOf(value, 'a condition'));
  const args = condition.get('args') ?? [];
  const kwargs = condition.get('kwargs') ?? {};
  for (const name of condition.keys()) {
    if (name !== 'args' && name !== 'kwargs') {
      throw new SyntaxError(
        'a condition on the arguments of a function may have only the keys `args` and `kwargs`',
      );
    }
  }
  return {
    args: asGrantList(args).map((pattern) => toArgumentPattern(pattern, syntax)),
    kwargs: new Map(
      entriesOf(kwargs, 'kwargs').map(([name, pattern]) => [
        name,
        toArgumentPattern(pattern, syntax),
      ]),
    ),
  };
}

function toArgumentPattern(value: unknown, syntax: GrantSyntax): GrantPattern | null {
  if (value === null) return null;
  if (typeof value === 'string' || typeof value === 'number') {
    return toPattern(String(value), syntax);
  }
  throw new SyntaxError(
    'a condition on an argument must be a regular expression, or `null` to permit any value',
  );
}

function toPattern(source: string, { compile }: GrantSyntax): GrantPattern {
  return { source, matches: compile(source) };
}

function asGrantList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value];
}

function onlyEntry(value: unknown, what: string): [string, unknown] {
  const [entry, ...more] = entriesOf(value, what);
  if (entry === undefined || more.length > 0)
    throw new SyntaxError(`invalid grant: ${what} must have exactly one key`);
  return entry;
}

function entriesOf(value: unknown, what: string): [string, unknown][] {
  if (isMap(value)) return Object.entries(value);
  throw new SyntaxError(`invalid grant: ${what} must be a map`);
}
