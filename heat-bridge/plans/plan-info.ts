/** The public description of a plan. */

import type { JsonSchema } from '../commands/command-definition.ts';
import type { CompiledPlan } from './plan-catalog.ts';
import type { GroupDefinition } from './plan-definition.ts';

/** A step, as far as callers are told. */
interface StepInfo {
  readonly name: string;
  readonly command: string;
  readonly group: string;
  readonly needs: readonly string[];
  readonly onFailure: 'stop' | 'continue';
  /** The command that takes it back. */
  readonly undo?: string;
}

/** What is told of a plan. */
export interface PlanInfo {
  readonly name: string;
  readonly description: string;
  readonly version: number;
  readonly parameters: JsonSchema;
  readonly secret: readonly string[];
  readonly groups: Readonly<Record<string, GroupDefinition>>;
  /** Each after those that it needs. */
  readonly steps: readonly StepInfo[];
  /** Seconds. */
  readonly timeout: number;
  readonly parallel: number;
  readonly deprecated?: string;
}

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

/** The groups that a caller gives. */
export function givenGroups({ groups }: Pick<PlanInfo, 'groups'>): readonly string[] {
  return Object.keys(groups).filter((name) => groups[name]?.from === undefined);
}

/** Whether each of its commands may be called. */
export function mayRunPlan({ steps }: PlanInfo, mayCall: (command: string) => boolean): boolean {
  return steps.every(
    ({ command, undo }) => mayCall(command) && (undo === undefined || mayCall(undo)),
  );
}
