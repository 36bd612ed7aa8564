import { signalRules } from './lifecycle-signals.ts';
import { returnRules } from './returns.ts';
import type { Decision, Question, Rule } from './types.ts';

/**
 * The one decision: may this subject do this? Everything that no rule permits is denied, so deny
 * is an answer like any other: the function never throws.
 */
export function decide(question: Question): Decision {
  switch (question.action) {
    case 'signal':
      return firstThatApplies(signalRules, question);
    case 'return':
      return firstThatApplies(returnRules, question);
  }
}

function firstThatApplies<Q extends Question>(rules: readonly Rule<Q>[], question: Q): Decision {
  for (const rule of rules) {
    const reason = rule.judge(question);
    if (reason !== undefined) return { effect: rule.effect, rule: rule.name, reason };
  }
  return {
    effect: 'deny',
    rule: 'default-deny',
    reason: `no rule lets ${question.subject.id} ${describe(question)}`,
  };
}

function describe(question: Question): string {
  return question.action === 'signal'
    ? `emit the tag "${question.resource.tag}"`
    : `return for job ${question.resource.jid}`;
}
