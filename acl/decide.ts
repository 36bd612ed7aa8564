import { signalRules } from './lifecycle-signals.ts';
import { mineRules, publishRules, runnerRules } from './peers.ts';
import { returnRules } from './returns.ts';
import { createSignalPolicy, type SignalPolicy } from './signal-policy.ts';
import type { Decision, Question, Rule } from './types.ts';

const nothingGranted = createSignalPolicy([]);

/**
 * The one decision: may this subject do this? Everything that no rule permits is denied, so deny
 * is an answer like any other: the function never throws.
 * @param policy what the operator lets minions emit; default: nothing beyond their lifecycle
 */
export function decide(question: Question, policy: SignalPolicy = nothingGranted): Decision {
  switch (question.action) {
    case 'signal':
      return (
        firstThatApplies(signalRules, question) ??
        firstThatApplies(policy.rules, question) ??
        defaultDeny(question)
      );
    case 'return':
      return firstThatApplies(returnRules, question) ?? defaultDeny(question);
    case 'publish':
      return firstThatApplies(publishRules, question) ?? defaultDeny(question);
    case 'runner':
      return firstThatApplies(runnerRules, question) ?? defaultDeny(question);
    case 'mine':
      return firstThatApplies(mineRules, question) ?? defaultDeny(question);
  }
}

function firstThatApplies<Q extends Question>(
  rules: readonly Rule<Q>[],
  question: Q,
): Decision | undefined {
  for (const rule of rules) {
    const reason = rule.judge(question);
    if (reason !== undefined) return { effect: rule.effect, rule: rule.name, reason };
  }
  return undefined;
}

function defaultDeny(question: Question): Decision {
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
