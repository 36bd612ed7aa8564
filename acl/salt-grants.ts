/**
 * Grants of `peer`, `peer_run` and `mine_get`: for minions whose id an expression matches, a list of
 * functions, perhaps with conditions on their arguments and, for publishing, on the minions
 * [salt/utils/minions.py auth_check, __fun_check, __args_check].
 */

/** A regular expression of the operator's. It means a text only as a whole. */
export interface GrantPattern {
  /** As it was written. */
  readonly source: string;
  readonly matches: (text: string) => boolean;
}

/** What the arguments of a call must be like; what is not named may be anything. */
interface ArgumentCondition {
  /** By place; `null`: there must be one. */
  readonly args: readonly (GrantPattern | null)[];
  /** By name; `null`: there must be one. */
  readonly kwargs: ReadonlyMap<string, GrantPattern | null>;
}

/** Functions that are permitted. */
export interface FunctionGrant {
  readonly fun: GrantPattern;
  /** Any one of them; empty: with any arguments. */
  readonly conditions: readonly ArgumentCondition[];
  /** A compound target: only on minions that it means. `undefined`: on any. */
  readonly within: string | undefined;
}

/** What minions are permitted. */
export interface Grant {
  readonly minion: GrantPattern;
  readonly functions: readonly FunctionGrant[];
}

/** How {@link parseGrants} reads. */
export interface GrantSyntax {
  /** Compiles an expression that means whole texts. @throws SyntaxError */
  readonly compile: (pattern: string) => (text: string) => boolean;
  /** What the key of a map in a list of functions is: a function, or a target with functions. */
  readonly mapKey: 'function' | 'target';
}

/**
 * Reads the value of such an option.
 * @throws SyntaxError with the reason
 */
export function parseGrants(value: unknown, syntax: GrantSyntax): Grant[] {
  return entriesOf(value, 'the option').map(([minion, functions]) => ({
    minion: toPattern(minion, syntax),
    functions: asGrantList(functions).flatMap((entry) => parseEntry(entry, syntax)),
  }));
}

/**
 * Functions with their conditions, in a list or alone.
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
  // Without one, the entry would permit what it was written to restrict.
  if (parsed.length === 0) throw new SyntaxError('a function with conditions has none');
  return [{ fun: toPattern(fun, syntax), conditions: parsed, within }];
}

function parseCondition(value: unknown, syntax: GrantSyntax): ArgumentCondition {
  const condition = new Map(entriesOf(value, 'a condition'));
  const args = condition.get('args') ?? [];
  const kwargs = condition.get('kwargs') ?? {};
  for (const name of condition.keys()) {
    if (name !== 'args' && name !== 'kwargs') {
      throw new SyntaxError('a condition has other keys than args and kwargs');
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
  throw new SyntaxError('the condition on an argument is an expression, or nothing');
}

function toPattern(source: string, { compile }: GrantSyntax): GrantPattern {
  return { source, matches: compile(source) };
}

function asGrantList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value];
}

function onlyEntry(value: unknown, what: string): [string, unknown] {
  const [entry, ...more] = entriesOf(value, what);
  if (entry === undefined || more.length > 0) throw new SyntaxError(`${what} has one key`);
  return entry;
}

function entriesOf(value: unknown, what: string): [string, unknown][] {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return Object.entries(value);
  }
  throw new SyntaxError(`${what} is a map`);
}
