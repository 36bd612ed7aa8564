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
 * Whether a rule with these patterns must not permit the function. This is so if the function may
 * be permitted only by its full name, without wildcards, and this name is not among the patterns.
 */
export function mustBeNamed(action: RuleAction, fun: string, patterns: TextPatterns): boolean {
  return functionsByNameOnly[action]?.has(fun) === true && !asList(patterns).includes(fun);
}
