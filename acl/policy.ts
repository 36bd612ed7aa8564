import { type CompiledRule, compileRule } from './compile-rule.ts';
import type { PolicyEnvironment } from './policy-syntax.ts';
import type { PolicyRule } from './rule.ts';
import { RulesBySubject } from './rules-by-subject.ts';

/** Rules in force, ready to be asked by {@link decide}. */
export interface Policy {
  readonly rules: readonly CompiledRule[];
  readonly ofSubjects: RulesBySubject;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/**
 * Compiles rules, all or nothing. What was metered by the rates of another policy is not known
 * to this one.
 * @throws PolicyError
 */
export function createPolicy(rules: readonly PolicyRule[], world: PolicyEnvironment): Policy {
  const compiled = rules.map((rule, order) => compileRule(rule, order, world));
  return { rules: compiled, ofSubjects: new RulesBySubject(compiled), now: world.now };
}

/** Nothing beyond what a minion may without any rule. */
export const emptyPolicy: Policy = {
  rules: [],
  ofSubjects: new RulesBySubject([]),
  now: () => 0,
};
