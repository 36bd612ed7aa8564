/** Functions of the master that are as good as every right: a rule permits them by name alone. */
import { asList } from './patterns.ts';
import type { RuleAction, TextPatterns } from './rule.ts';

/** By action. `state.orchestrate_single` runs whatever function its caller names, anywhere. */
const named: Readonly<Partial<Record<RuleAction, ReadonlySet<string>>>> = {
  runner: new Set(['state.orchestrate_single']),
};

/** Whether a rule that allows means a function only by a pattern, where it would have to name it. */
export function lacksName(action: RuleAction, fun: string, patterns: TextPatterns): boolean {
  return named[action]?.has(fun) === true && !asList(patterns).includes(fun);
}
