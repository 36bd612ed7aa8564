/** Stored form of a run of a plan. Its steps are stored as runs of commands. */

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
    /** Digest of the parameters and the groups. */
    digest: Type.String(),
    groups: Type.Unsafe<Groups>(Type.Object({})),
    /** Groups that the caller's rights limited. Absent if there are none. */
    narrowed: Type.Optional(Texts),
    /** Start, in milliseconds since 1970. */
    begunAt: Type.Number(),
    /** Steps that were started, including ended ones. */
    begun: Texts,
    /** Ended steps, in the order of their end. */
    ended: Texts,
    /** Status because of which completed steps are being undone. Absent while nothing is undone. */
    undoing: Type.Optional(Type.Unsafe<PlanOutcome['status']>(Type.String())),
    /** Outcome. Absent while the run is active. */
    outcome: Type.Optional(Type.Unsafe<PlanOutcome>(Type.Object({}))),
  }),
  packed: { groups: markedJsonField, outcome: markedJsonField },
  unversioned: fromMarkedJson,
});

/** Run of a plan, as it is stored under its idempotency key. */
export type StoredPlan = RowOf<typeof row>;

export const storedPlanRow: RowCodec<StoredPlan> = row;

/** Removes the returns, to reduce the size of a row. */
export function withoutPlanReturns({ outcome, ...plan }: StoredPlan): StoredPlan {
  if (outcome === undefined) return plan;
  const short = ({ results, ...step }: PlanOutcome['steps'][number]) => ({
    ...step,
    results: results.map(({ return: _, ...rest }) => rest),
  });
  const { steps, undone } = outcome;
  return { ...plan, outcome: { ...outcome, steps: steps.map(short), undone: undone.map(short) } };
}
