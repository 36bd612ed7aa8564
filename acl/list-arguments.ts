/**
 * Conditions on arguments, some of which contain several names in one text, separated by commas. A
 * rule must permit each of the names. Otherwise, the pattern `web*` would also permit `web1,db1`. A
 * name that is a glob must be permitted with everything that it matches.
 */

import { policyLimits } from './limits.ts';
import type { PolicySyntax } from './policy-syntax.ts';
import type { ArgumentPattern, RuleAction, TextPattern } from './rule.ts';
import { compileCondition, literalPrefix, type RuleField } from './rule-patterns.ts';
import type { Call } from './types.ts';

/** An argument with a list of names: the name of its parameter, and its position. */
interface ListParameter {
  readonly name: string;
  readonly position: number;
  /** Whether the names are globs. */
  readonly isGlob?: boolean;
  /** Whether the argument is a map of lists of names. */
  readonly isMap?: boolean;
}

type ListParameters = readonly ListParameter[];

const match: ListParameters = [{ name: 'match', position: 0, isGlob: true }];
const idsByState: ListParameters = [{ name: 'match', position: 0, isMap: true }];
const mods: ListParameters = [{ name: 'mods', position: 0 }];
const packages: ListParameters = [{ name: 'name', position: 0 }];
const backend: ListParameters = [{ name: 'backend', position: 0 }];
const secondBackend: ListParameters = [{ name: 'backend', position: 1 }];
const firstEnvironment: ListParameters = [{ name: 'saltenv', position: 0 }];
const subset: ListParameters = [{ name: 'subset', position: 0 }];
/** Functions of the runner `manage` about the connected minions. */
const presenceFunctions = ['list_state', 'list_not_state'].concat(
  ['alived', 'allowed', 'joined', 'present', 'reaped'].flatMap((name) => [name, `not_${name}`]),
);

/** Functions that split arguments at commas, by action. */
const splitting: Readonly<
  Partial<Record<RuleAction, Readonly<Record<string, ListParameters | undefined>>>>
> = {
  wheel: {
    ...{ 'key.accept': match, 'key.delete': match, 'key.finger': match, 'key.name_match': match },
    ...{ 'key.print': match, 'key.reject': match },
    ...{ 'key.accept_dict': idsByState, 'key.delete_dict': idsByState },
    'key.reject_dict': idsByState,
  },
  runner: {
    ...{ 'state.orch': mods, 'state.orchestrate': mods, 'state.sls': mods },
    ...{ 'state.orch_show_sls': mods, 'state.orchestrate_show_sls': mods },
    'mine.get': [{ name: 'fun', position: 1 }],
    ...{ 'fileserver.clear_cache': backend, 'fileserver.clear_lock': backend },
    ...{ 'fileserver.envs': backend, 'fileserver.lock': backend, 'fileserver.update': backend },
    ...{ 'fileserver.dir_list': secondBackend, 'fileserver.empty_dir_list': secondBackend },
    ...{ 'fileserver.file_list': secondBackend, 'fileserver.symlink_list': secondBackend },
    'fileserver.clear_file_list_cache': [...firstEnvironment, ...secondBackend],
    'jobs.last_run': [
      { name: 'function', position: 3, isGlob: true },
      { name: 'target', position: 4, isGlob: true },
    ],
    'jobs.list_jobs': [
      { name: 'search_function', position: 3, isGlob: true },
      { name: 'search_target', position: 4, isGlob: true },
    ],
    ...Object.fromEntries(presenceFunctions.map((name) => [`manage.${name}`, subset])),
  },
  publish: {
    ...{ 'state.apply': mods, 'state.sls': mods, 'state.show_sls': mods },
    ...{ 'state.show_low_sls': mods, 'state.sls_exists': mods },
    'state.sls_id': [{ name: 'mods', position: 1 }],
    ...{ 'pkg.install': packages, 'pkg.purge': packages, 'pkg.remove': packages },
  },
};

const maxNames = policyLimits.argumentNames.perOwner ?? Infinity;

/** A condition of a rule, compiled. */
interface Compiled {
  readonly condition: ArgumentPattern;
  readonly meets: (call: Call) => boolean;
}

/**
 * Compiles conditions on arguments, of which a call must meet one.
 * @throws PolicyError ERR_POLICY_PATTERN
 */
export function compileArguments(
  conditions: readonly ArgumentPattern[] | undefined,
  { action, effect }: { readonly action: RuleAction; readonly effect: 'allow' | 'deny' },
  syntax: PolicySyntax,
  place: RuleField,
): (call: Call) => boolean {
  if (conditions === undefined) return () => true;
  const compile = (condition: ArgumentPattern): Compiled['meets'] =>
    compileCondition(condition, { action, effect }, syntax, place);
  const all = conditions.map((condition) => ({ condition, meets: compile(condition) }));
  const meets = (call: Call): boolean => all.some((it) => it.meets(call));
  const ofFunctions = splitting[action];
  if (ofFunctions === undefined) return meets;
  return (call) => {
    const parameters = Object.hasOwn(ofFunctions, call.fun) ? ofFunctions[call.fun] : undefined;
    if (parameters === undefined) return meets(call);
    const single = singleCalls(call, parameters);
    if (effect === 'deny') {
      return (
        single === undefined ||
        meets(call) ||
        single.some((one) => meets(one) || mayMatchDenied(conditions, one, parameters))
      );
    }
    const isWhole = all.some((it) => isWrittenIn(it.condition, call, parameters) && it.meets(call));
    if (isWhole) return true;
    return single?.every((one) => all.some((it) => permits(it, one, parameters))) === true;
  };
}

/**
 * Whether a condition of an `allow` rule permits a call with one name. If the name is a glob, the
 * condition must certainly permit everything that the glob matches: its pattern has no other
 * wildcard than `*` (or `.*`), and matches the text of the glob.
 */
function permits({ condition, meets }: Compiled, call: Call, parameters: ListParameters): boolean {
  const globs = parameters.filter((it) => it.isGlob === true);
  const areCertain = globs.every((parameter) => {
    const texts = textsOf(call, parameter);
    return patternsOf(condition, parameter).every(
      (pattern, index) =>
        !isGlob(texts[index] ?? '') || pattern === undefined || matchesAllOfPrefix(pattern),
    );
  });
  if (!areCertain) return false;
  // A set of characters matches one of them. A pattern must not match the characters themselves.
  return meets(globs.reduce((one, parameter) => withTexts(one, parameter, withoutSets), call));
}

/**
 * Whether a pattern certainly matches each text in place of `*`: a glob that has no other wildcard,
 * or a regular expression that consists of a literal text and `.*`.
 */
function matchesAllOfPrefix(pattern: TextPattern): boolean {
  if (typeof pattern === 'string') return !/[?[]/.test(pattern);
  return /^\^?(?:(?:[\w-]|\\[.-])*\.\*|\.\+)\$?$/.test(pattern.regex);
}

/**
 * Whether a glob in a call may match a name that a condition of a `deny` rule describes. The other
 * arguments are not taken into account.
 */
function mayMatchDenied(
  conditions: readonly ArgumentPattern[],
  call: Call,
  parameters: ListParameters,
): boolean {
  return parameters.some((parameter) => {
    if (parameter.isGlob !== true) return false;
    const globs = textsOf(call, parameter).filter((text) => text !== undefined && isGlob(text));
    const prefixes = globs.map((text) => literalPrefix(text ?? ''));
    const denied = conditions.flatMap((condition) => patternsOf(condition, parameter));
    return denied.some((pattern) => {
      if (pattern === undefined) return false;
      const begin = typeof pattern === 'string' ? literalPrefix(pattern) : '';
      return prefixes.some((prefix) => begin.startsWith(prefix) || prefix.startsWith(begin));
    });
  });
}

/** Returns the patterns of a condition for a parameter: by position, and by name. */
function patternsOf(
  { args = [], kwargs = {} }: ArgumentPattern,
  { name, position }: ListParameter,
): readonly (TextPattern | undefined)[] {
  const named = Object.hasOwn(kwargs, name) ? kwargs[name] : undefined;
  return [args[position] ?? undefined, named ?? undefined];
}

/** Returns the texts of a parameter in a call: by position, and by name. */
function textsOf(
  { args, kwargs }: Call,
  { name, position }: ListParameter,
): readonly (string | undefined)[] {
  return [args[position], kwargs.get(name)];
}

/** Returns a call with changed texts of a parameter. */
function withTexts(call: Call, parameter: ListParameter, change: (text: string) => string): Call {
  const { fun, args, kwargs } = call;
  const { name, position } = parameter;
  const [byPosition, byName] = textsOf(call, parameter);
  return {
    fun,
    args: byPosition === undefined ? args : args.with(position, change(byPosition)),
    kwargs: byName === undefined ? kwargs : new Map(kwargs).set(name, change(byName)),
  };
}

function isGlob(text: string): boolean {
  return /[*?[]/.test(text);
}

/** Replaces each set of characters in a glob by `?`. */
function withoutSets(glob: string): string {
  return glob.replaceAll(/\[!?\]?[^\]]*\]?/g, '?');
}

/**
 * Returns the call once for each combination of names in its lists, with these names in place of
 * the lists. The result is `undefined` if there are too many of them.
 */
function singleCalls(call: Call, parameters: ListParameters): readonly Call[] | undefined {
  let calls: readonly Call[] = [call];
  for (const parameter of parameters) {
    const count = splitCall(call, parameter)?.length ?? Infinity;
    if (count * calls.length > maxNames) return undefined;
    calls = calls.flatMap((one) => splitCall(one, parameter) ?? []);
  }
  return calls;
}

/** Returns the call once for each name in the list that one of its arguments contains. */
function splitCall(call: Call, parameter: ListParameter): readonly Call[] | undefined {
  const { fun, args, kwargs } = call;
  const { name, position, isMap } = parameter;
  const [byPosition, byName] = textsOf(call, parameter).map(isMap === true ? namesInMap : namesIn);
  if (byPosition === undefined || byName === undefined) return undefined;
  const calls = [
    ...byPosition.map((one): Call => ({ fun, args: args.with(position, one), kwargs })),
    ...byName.map((one): Call => ({ fun, args, kwargs: new Map(kwargs).set(name, one) })),
  ];
  return calls.length === 0 ? [call] : calls;
}

/**
 * Matches a text without escape sequences in the form in which Python writes it. A key of a map is
 * followed by a colon.
 */
const quoted = /(?:'([^'\\]*)'|"([^"\\]*)")(:?)/g;

/**
 * Returns the names in a map of lists as Python writes it, for example `{'minions': ['web1']}`. The
 * result is `undefined` for too many names, and for any other text.
 */
function namesInMap(text = ''): readonly string[] | undefined {
  if (text === '') return [];
  if (!/^[[\]{}:, ]*$/.test(text.replaceAll(quoted, ''))) return undefined;
  const texts = Array.from(text.matchAll(quoted), ([, single, double, colon]) => ({
    name: single ?? double ?? '',
    isKey: colon === ':',
  }));
  const names = texts.filter(({ isKey }) => !isKey).map(({ name }) => name);
  return names.length > maxNames ? undefined : names;
}

/** Returns the names in a text with commas, no names for any other text. */
function namesIn(text: string | undefined): readonly string[] | undefined {
  if (text?.includes(',') !== true) return [];
  const names = text.split(',', maxNames + 1).map((one) => one.trim());
  return names.length > maxNames ? undefined : names.filter((one) => one !== '');
}

/** Whether the operator wrote exactly these lists of names, and these globs, in the rule. */
function isWrittenIn(condition: ArgumentPattern, call: Call, parameters: ListParameters): boolean {
  return parameters.every((parameter) => {
    const patterns = patternsOf(condition, parameter);
    return textsOf(call, parameter).every((text, index) => {
      const mayBeList = parameter.isGlob === true || parameter.isMap === true;
      if (text === undefined || !(mayBeList || text.includes(','))) return true;
      const pattern = patterns[index];
      return (typeof pattern === 'object' ? pattern.regex : pattern) === text;
    });
  });
}
