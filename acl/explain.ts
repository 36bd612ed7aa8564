/**
 * Explains decisions by naming the rule that decided. If no rule allows the request, names the
 * rules that come closest: those with the fewest unmet conditions.
 */

import type { Request } from './compile-resource.ts';
import type { CompiledRule } from './compile-rule.ts';
import { evaluateQuestion, obstaclesTo, requestsOf } from './decide.ts';
import type { Policy } from './policy.ts';
import type { Decision, Question, RuleOrigin } from './types.ts';

/** Rule that comes close to allowing the request, with the reasons why it does not apply. */
export interface NearRule {
  readonly rule: string;
  readonly origin?: RuleOrigin;
  readonly obstacles: readonly string[];
}

/** Decision about a request, with the reasons. */
export interface Explanation {
  readonly decision: Decision;
  /**
   * If no rule applies: the rules that come closest to applying, at most three. These are the rules
   * with the fewest reasons against them. Empty if a rule applies.
   */
  readonly nearest: readonly NearRule[];
}

const maxNearest = 3;

/** Explains the decision that {@link decide} would make. Does not count towards rate limits. */
export function explain(question: Question, policy: Policy): Explanation {
  const { decision } = evaluateQuestion(question, policy);
  if (decision.rule !== 'default-deny' || question.action === 'return') {
    return { decision, nearest: [] };
  }
  const near = requestsOf(question)
    .map((request) => nearestTo(request, policy))
    .find((rules) => rules[0] === undefined || rules[0].obstacles.length > 0);
  return { decision, nearest: near ?? [] };
}

function nearestTo(request: Request, policy: Policy): NearRule[] {
  const now = policy.now();
  const found = policy.rules
    .filter(({ rule }) => rule.effect === 'allow' && rule.action === request.action)
    .map((rule) => ({ rule, obstacles: obstaclesTo(rule, request, now) }));
  const least = Math.min(...found.map(({ obstacles }) => obstacles.length));
  return found
    .filter(({ obstacles }) => obstacles.length === least)
    .slice(0, maxNearest)
    .map(({ rule, obstacles }) => toNearRule(rule, obstacles));
}

function toNearRule({ rule }: CompiledRule, obstacles: readonly string[]): NearRule {
  const { name, origin } = rule;
  return { rule: name, ...(origin === undefined ? {} : { origin }), obstacles };
}
