/** Recorded decisions under another policy: what would be otherwise. */
import { type Decision, explain, type Policy } from '../../acl/index.ts';
import { questionsOf } from './question.ts';
import type { RecordedDecision } from './record.ts';

/** A decision that another policy would make otherwise. */
export interface ReplayChange {
  readonly kind: /** It was permitted, and would be denied. */
    | 'denied'
    /** It was denied, and would be permitted. */
    | 'allowed'
    /** Another rule would decide the same. */
    | 'other-rule';
  readonly recorded: Omit<RecordedDecision, 'samples'>;
  /** What would decide. Of several examples, the one that is denied. */
  readonly decision: Decision;
}

/** What {@link replay} found. */
export interface ReplayReport {
  /** Recorded decisions that were looked at, and how often they were made. */
  readonly decisions: number;
  readonly requests: number;
  /** Those of which not every example was kept: data in them may be decided otherwise. */
  readonly uncertain: number;
  /** Decisions that were too many to be recorded, since the start. */
  readonly missed: number;
  readonly changes: readonly ReplayChange[];
}

/** Rates are not replayed: nothing is used up, and what was once over a rate was so by its time. */
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
