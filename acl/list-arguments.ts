/**
 * Arguments that contain several names in one text, separated by commas. A rule must permit each of
 * the names. Otherwise, the pattern `web*` would also permit `web1,db1`.
 */

import { policyLimits } from './limits.ts';
import type { ArgumentPattern, RuleAction, TextPattern } from './rule.ts';
import type { Call } from './types.ts';

/** An argument with a list of names: the name of its parameter, and its position. */
interface ListParameter {
  readonly name: string;
  readonly position: number;
}

const match: ListParameter = { name: 'match', position: 0 };
const mods: ListParameter = { name: 'mods', position: 0 };
const packages: ListParameter = { name: 'name', position: 0 };

/** Functions that split an argument at commas, by action. */
const splitting: Readonly<
  Partial<Record<RuleAction, Readonly<Record<string, ListParameter | undefined>>>>
> = {
  wheel: {
    ...{ 'key.accept': match, 'key.delete': match, 'key.finger': match, 'key.name_match': match },
    ...{ 'key.print': match, 'key.reject': match },
  },
  runner: {
    ...{ 'state.orch': mods, 'state.orchestrate': mods, 'state.sls': mods },
    ...{ 'state.orch_show_sls': mods, 'state.orchestrate_show_sls': mods },
  },
  publish: {
    ...{ 'state.apply': mods, 'state.sls': mods, 'state.show_sls': mods },
    ...{ 'state.show_low_sls': mods, 'state.sls_exists': mods },
    'state.sls_id': { name: 'mods', position: 1 },
    ...{ 'pkg.install': packages, 'pkg.purge': packages, 'pkg.remove': packages },
  },
};

const maxNames = policyLimits.argumentNames.perOwner ?? Infinity;

/**
 * Returns a test of calls that judges each name in a list of names.
 * @param meets - whether the arguments of a call meet the conditions of a rule
 * @param conditions - these conditions
 */
export function judgeEachName(
  { action, effect }: { readonly action: RuleAction; readonly effect: 'allow' | 'deny' },
  conditions: readonly ArgumentPattern[] | undefined,
  meets: (call: Call) => boolean,
): (call: Call) => boolean {
  const ofFunctions = splitting[action];
  if (conditions === undefined || ofFunctions === undefined) return meets;
  return (call) => {
    const parameter = Object.hasOwn(ofFunctions, call.fun) ? ofFunctions[call.fun] : undefined;
    if (parameter === undefined) return meets(call);
    const single = singleCalls(call, parameter);
    if (effect === 'deny') return single === undefined || meets(call) || single.some(meets);
    const isWritten = conditions.some((condition) => isWrittenIn(condition, call, parameter));
    return isWritten ? meets(call) : single?.every(meets) === true;
  };
}

/**
 * Returns the call once for each name in a list, with this name in place of the list. The result is
 * `undefined` if there are too many names.
 */
function singleCalls(call: Call, { name, position }: ListParameter): readonly Call[] | undefined {
  const { fun, args, kwargs } = call;
  const byPosition = namesIn(args[position]);
  const byName = namesIn(kwargs.get(name));
  if (byPosition === undefined || byName === undefined) return undefined;
  const calls = [
    ...byPosition.map((one): Call => ({ fun, args: args.with(position, one), kwargs })),
    ...byName.map((one): Call => ({ fun, args, kwargs: new Map(kwargs).set(name, one) })),
  ];
  return calls.length === 0 ? [call] : calls;
}

/** Returns the names in a text with commas, no names for any other text. */
function namesIn(text: string | undefined): readonly string[] | undefined {
  if (text?.includes(',') !== true) return [];
  const names = text.split(',', maxNames + 1).map((one) => one.trim());
  return names.length > maxNames ? undefined : names.filter((one) => one !== '');
}

/** Whether the operator wrote exactly this list of names in the rule. */
function isWrittenIn(
  { args = [], kwargs = {} }: ArgumentPattern,
  call: Call,
  { name, position }: ListParameter,
): boolean {
  const [byPosition, byName] = [call.args[position], call.kwargs.get(name)];
  const isSame = (pattern: TextPattern | null | undefined, text: string): boolean =>
    pattern === text || (typeof pattern === 'object' && pattern?.regex === text);
  return (
    (byPosition === undefined || isSame(args[position], byPosition)) &&
    (byName === undefined || isSame(Object.hasOwn(kwargs, name) ? kwargs[name] : null, byName))
  );
}
