import type { RuleAction, TextPatterns } from './rule.ts';
import { asList } from './rule-patterns.ts';

/** By action. `state.orchestrate_single` runs whatever function its caller names, anywhere. */
const functionsByNameOnly: Readonly<Partial<Record<RuleAction, ReadonlySet<string>>>> = {
  runner: new Set(['state.orchestrate_single']),
};

/** Whether a rule that allows means a function only by a pattern, where it would have to name it. */
export function mustBeNamed(action: RuleAction, fun: string, patterns: TextPatterns): boolean {
  return functionsByNameOnly[action]?.has(fun) === true && !asList(patterns).includes(fun);
}
