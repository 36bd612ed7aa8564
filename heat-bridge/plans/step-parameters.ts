/** Maps parameters and results of earlier steps to the parameters of a command. */

import type { JsonValue } from '#runtime';
import { givenParameter } from '../commands/argument-mapping.ts';
import type { Parameters } from '../commands/parameters.ts';
import { parseJsonPointer, valueAtPointer } from './json-pointer.ts';
import type { StepSource, StepSources } from './plan-definition.ts';

/** Returns of steps with one minion, by step. */
export type StepReturns = ReadonlyMap<string, JsonValue>;

/** Reference to a value in a step's return. */
export type StepReference = Extract<StepSource, { readonly step: string }>;

/** Returns the names of the plan's parameters that a source uses. */
export function parametersOfStepSource(source: StepSource): string[] {
  if ('parameter' in source) return [source.parameter];
  return 'map' in source ? Object.values(source.map).flatMap(parametersOfStepSource) : [];
}

/** Returns the results that sources use. */
export function stepReferences(sources: StepSources): StepReference[] {
  return Object.values(sources).flatMap((source) => {
    if ('step' in source) return [source];
    return 'map' in source ? stepReferences(source.map) : [];
  });
}

/** Returns the parameters of a command. Missing parameters and results are omitted. */
export function stepParameters(
  sources: StepSources,
  parameters: Parameters,
  returned: StepReturns,
): Parameters {
  const values = Object.entries(sources).flatMap(([key, source]) => {
    const value = valueOfSource(source, parameters, returned);
    return value === undefined ? [] : [[key, value] as const];
  });
  return Object.fromEntries(values);
}

function valueOfSource(
  source: StepSource,
  parameters: Parameters,
  returned: StepReturns,
): JsonValue | undefined {
  if ('parameter' in source) return givenParameter(parameters, source.parameter);
  if ('value' in source) return source.value;
  if ('map' in source) return stepParameters(source.map, parameters, returned);
  return valueAtPointer(returned.get(source.step), parseJsonPointer(source.path) ?? []);
}
