import type { RuleAction, TextPatterns } from './rule.ts';
import { asList } from './rule-patterns.ts';

/**
 * Functions that a rule must name without wildcards, by action. `state.orchestrate_single` is among
 * them, because it runs any function that its caller names.
 */
const functionsByNameOnly: Readonly<Partial<Record<RuleAction, ReadonlySet<string>>>> = {
  runner: new Set(['state.orchestrate_single']),
};

/**
 * Whether a rule with these patterns does not permit a powerful function, because it does not name
 * the function. Rules must name such a function in full, without wildcards. Returns `false` for all
 * other functions.
 */
export function mustBeNamed(action: RuleAction, fun: string, patterns: TextPatterns): boolean {
  return functionsByNameOnly[action]?.has(fun) === true && !asList(patterns).includes(fun);
}
