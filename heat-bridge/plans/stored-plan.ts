/**
 * Stored form of a run of a plan. The runs of its steps are stored separately, as runs of commands.
 */

import Type from 'typebox';
import { defineRow, type RowCodec, type RowOf, Texts } from '#store';
import { fromMarkedJson, markedJsonField } from '../marked-json-field.ts';
import type { Groups } from './plan-groups.ts';
import type { PlanOutcome } from './plan-request.ts';
import { planOutcomeWithoutReturns } from './plan-run.ts';

/** Encrypted rows `keys/<digest>` of plans: one row for each idempotency key. */
const row = defineRow({
  name: 'run of a plan',
  schema: Type.Object({
    id: Type.String(),
    /** Digest of the parameters and the groups. */
    digest: Type.String(),
    groups: Type.Unsafe<Groups>(Type.Object({})),
    /**
     * Names of the groups from which minions were excluded, because the caller has no rights on
     * these minions. Absent if no minion was excluded.
     */
    narrowed: Type.Optional(Texts),
    /** Start, in milliseconds since 1970. */
    begunAt: Type.Number(),
    /** Names of the steps that were started. Ended steps are included. */
    begun: Texts,
    /** Names of the ended steps, in the order in which they ended. */
    ended: Texts,
    /**
     * Status that the plan will have when its completed steps have been undone. Absent while steps
     * run.
     */
    undoing: Type.Optional(Type.Unsafe<PlanOutcome['status']>(Type.String())),
    /** Status of the ended plan, with the results of its steps. Absent until the plan has ended. */
    outcome: Type.Optional(Type.Unsafe<PlanOutcome>(Type.Object({}))),
  }),
  packed: { groups: markedJsonField, outcome: markedJsonField },
  unversioned: fromMarkedJson,
});

/** Run of a plan in the form in which it is stored under its idempotency key. */
export type StoredPlan = RowOf<typeof row>;

export const storedPlanRow: RowCodec<StoredPlan> = row;

/** Removes the minions' returns from a stored run, so that its row becomes smaller. */
export function withoutPlanReturns({ outcome, ...plan }: StoredPlan): StoredPlan {
  if (outcome === undefined) return plan;
  return { ...plan, outcome: planOutcomeWithoutReturns(outcome) };
}
