import { type Decision, explain, type Policy } from '#acl';
import type { RecordedDecision, ReplayChange, ReplayReport } from '../api/index.ts';
import { questionsOf } from './recorded-questions.ts';

/**
 * Compares recorded decisions with the decisions of another policy, and reports the differences.
 * Rate limits are ignored, because they depend on the times of the original requests. The
 * comparison does not count towards rate limits.
 */
export function replay(
  records: readonly RecordedDecision[],
  policy: Policy,
  missed: number,
): ReplayReport {
  const changes = records.flatMap((record) => compare(record, policy) ?? []);
  return {
    decisions: records.length,
    requests: records.reduce((sum, { count }) => sum + count, 0),
    uncertain: records.filter(({ isWhole }) => !isWhole).length,
    missed,
    changes,
  };
}

function compare(record: RecordedDecision, policy: Policy): ReplayChange | undefined {
  const decisions = questionsOf(record).map((question) => explain(question, policy).decision);
  const decision = decisions.find(({ effect }) => effect === 'deny') ?? decisions[0];
  if (decision === undefined) return undefined;
  const kind = kindOf(record, decision);
  const { samples: _samples, ...recorded } = record;
  return kind && { kind, recorded, decision };
}

function kindOf(
  { effect, rule }: RecordedDecision,
  decision: Decision,
): ReplayChange['kind'] | undefined {
  if (effect !== decision.effect) return effect === 'allow' ? 'denied' : 'allowed';
  return rule === decision.rule ? undefined : 'other-rule';
}
