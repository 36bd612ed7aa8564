import { signalRules } from './lifecycle-signals.ts';
import { mineRules, publishRules, runnerRules } from './peers.ts';
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
    case 'publish':
      return firstThatApplies(publishRules, question);
    case 'runner':
      return firstThatApplies(runnerRules, question);
    case 'mine':
      return firstThatApplies(mineRules, question);
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
  switch (question.action) {
    case 'signal':
      return `emit the tag "${question.resource.tag}"`;
    case 'return':
      return `return for job ${question.resource.jid}`;
    case 'publish':
      return `publish ${question.resource.calls.map(({ fun }) => fun).join(',')}`;
    case 'runner':
      return `run ${question.resource.call.fun}`;
    case 'mine':
      return `read ${question.resource.fun} from the mine`;
  }
}
