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
 * Whether the function may be permitted only by its full name, without wildcards, and the patterns
 * of the rule do not contain this name.
 */
export function mustBeNamed(action: RuleAction, fun: string, patterns: TextPatterns): boolean {
  return functionsByNameOnly[action]?.has(fun) === true && !asList(patterns).includes(fun);
}
