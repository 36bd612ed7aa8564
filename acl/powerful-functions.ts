import type { RuleAction, TextPatterns } from './rule.ts';
import { asList } from './rule-patterns.ts';

/**
 * Functions that a rule must name without wildcards, by action. `state.orchestrate_single` is among
 * them, because it runs any function that its caller names. `file_roots.write` is among them, because
 * it changes the states that minions run.
 */
const functionsByNameOnly: Readonly<Partial<Record<RuleAction, ReadonlySet<string>>>> = {
  runner: new Set(['state.orchestrate_single']),
  wheel: new Set(['file_roots.write']),
};

/**
 * Whether a rule must name this function in full to permit it, and the rule's patterns do not. Only
 * powerful functions must be named in full, without wildcards. For all others, returns `false`.
 */
export function mustBeNamed(action: RuleAction, fun: string, patterns: TextPatterns): boolean {
  return functionsByNameOnly[action]?.has(fun) === true && !asList(patterns).includes(fun);
}
