import { isAccepted, markAccepted } from './accepted-rules.ts';
import { type CompiledRule, compileRule } from './compile-rule.ts';
import { DeferredRule } from './deferred-rule.ts';
import type { PolicyEnvironment } from './policy-syntax.ts';
import type { PolicyRule } from './rule.ts';
import { RulesBySubject } from './rules-by-subject.ts';

/** Compiled rules, for use with {@link decide}. */
export interface Policy {
  readonly rules: readonly CompiledRule[];
  readonly ofSubjects: RulesBySubject;
  /** Returns the current time in milliseconds since 1970. */
  readonly now: () => number;
}

/**
 * Compiles all rules. Rate limits start anew, so requests under an earlier policy are not counted.
 * @throws PolicyError if a rule is invalid
 */
export function createPolicy(rules: readonly PolicyRule[], world: PolicyEnvironment): Policy {
  const compiled = rules.map((rule, order): CompiledRule => {
    if (isAccepted(rule, world)) return new DeferredRule(rule, order, world);
    const whole = compileRule(rule, order, world);
    markAccepted(rule, world);
    return whole;
  });
  return { rules: compiled, ofSubjects: new RulesBySubject(compiled), now: world.now };
}

/**
 * Policy without rules of the operator. It allows only what built-in rules allow: lifecycle signals
 * of minions, and returns of jobs that were published to them or that they started.
 */
export const emptyPolicy: Policy = {
  rules: [],
  ofSubjects: new RulesBySubject([]),
  now: () => 0,
};
