/** Public description of a plan. */

import Type, { type Static } from 'typebox';
import { Texts } from '#store';
import { SchemaField } from '../commands/command-info.ts';
import { listOf } from '../http/route-schema.ts';
import type { CompiledPlan } from './plan-catalog.ts';
import { GroupSchema } from './plan-definition.ts';

const Text = Type.String();
/** Description of a step for callers. */
const StepSchema = Type.Object({
  name: Text,
  command: Text,
  group: Text,
  needs: Texts,
  onFailure: Type.Enum(['stop', 'continue']),
  /** Name of the command that undoes the step. */
  undo: Type.Optional(Text),
});

/** Description of a plan for its callers. */
export const PlanSchema = Type.Object({
  name: Text,
  description: Text,
  version: Type.Integer(),
  parameters: SchemaField,
  secret: Texts,
  groups: Type.Record(Type.String(), GroupSchema),
  /** Steps. Each step comes after the steps that it needs. */
  steps: listOf(StepSchema),
  /** Timeout, in seconds. */
  timeout: Type.Number(),
  parallel: Type.Integer(),
  deprecated: Type.Optional(Text),
});

/** Description of a plan; {@link PlanSchema} documents its fields. */
export type PlanInfo = Readonly<Static<typeof PlanSchema>>;

export function describePlan({ definition, steps, secret }: CompiledPlan): PlanInfo {
  const { name, description, groups, deprecated } = definition;
  return {
    name,
    description,
    version: definition.version ?? 1,
    parameters: definition.parameters ?? { type: 'object', properties: {} },
    secret,
    groups,
    steps: steps.map(({ name: step, definition: { command, group, needs, onFailure, undo } }) => ({
      name: step,
      command,
      group,
      needs: needs ?? [],
      onFailure: onFailure ?? 'stop',
      ...(undo === undefined ? {} : { undo: undo.command }),
    })),
    timeout: definition.timeoutSeconds ?? 600,
    parallel: definition.parallel ?? 8,
    ...(deprecated === undefined ? {} : { deprecated }),
  };
}

/** Returns the names of the groups for which the caller gives targets. */
export function givenGroups({ groups }: Pick<PlanInfo, 'groups'>): readonly string[] {
  return Object.keys(groups).filter((name) => groups[name]?.from === undefined);
}

/** Whether the caller may run every command of the plan. */
export function mayRunPlan({ steps }: PlanInfo, mayCall: (command: string) => boolean): boolean {
  return steps.every(
    ({ command, undo }) => mayCall(command) && (undo === undefined || mayCall(undo)),
  );
}
