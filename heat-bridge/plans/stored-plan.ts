/** A run of a plan as it is stored. Its steps are stored as runs of commands. */

import Type from 'typebox';
import { defineRow, type RowCodec, type RowOf, Texts } from '#store';
import { fromMarkedJson, markedJsonField } from '../marked-json-field.ts';
import type { Groups } from './plan-groups.ts';
import type { PlanOutcome } from './plan-request.ts';

/** Rows `keys/<digest>` of plans, sealed. */
const row = defineRow({
  name: 'run of a plan',
  schema: Type.Object({
    id: Type.String(),
    /** Of the parameters and the groups. */
    digest: Type.String(),
    groups: Type.Unsafe<Groups>(Type.Object({})),
    /** Groups that the rights of the caller limited. Absent: none. */
    narrowed: Type.Optional(Texts),
    /** Milliseconds since 1970. */
    begunAt: Type.Number(),
    /** Steps that were begun, those that ended among them. */
    begun: Texts,
    /** Steps that ended, in the order in which they did. */
    ended: Texts,
    /** Why it takes back what is done. Absent: it does not, yet. */
    undoing: Type.Optional(Type.Unsafe<PlanOutcome['status']>(Type.String())),
    /** Absent: it is not over. */
    outcome: Type.Optional(Type.Unsafe<PlanOutcome>(Type.Object({}))),
  }),
  packed: { groups: markedJsonField, outcome: markedJsonField },
  unversioned: fromMarkedJson,
});

/** A run of a plan as it is stored under its idempotency key. */
export type StoredPlan = RowOf<typeof row>;

export const storedPlanRow: RowCodec<StoredPlan> = row;

/** Without what was returned, where that is too much. */
export function withoutPlanReturns({ outcome, ...plan }: StoredPlan): StoredPlan {
  if (outcome === undefined) return plan;
  const short = ({ results, ...step }: PlanOutcome['steps'][number]) => ({
    ...step,
    results: results.map(({ return: _, ...rest }) => rest),
  });
  const { steps, undone } = outcome;
  return { ...plan, outcome: { ...outcome, steps: steps.map(short), undone: undone.map(short) } };
}
