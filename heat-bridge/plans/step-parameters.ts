/**
 * Computes the parameters of a step's command from the plan's parameters and the results of earlier
 * steps.
 */

import { givenParameter } from '../commands/argument-mapping.ts';
import type { Parameters, ParameterValue } from '../commands/parameters.ts';
import { parseJsonPointer, valueAtPointer } from './json-pointer.ts';
import type { StepSource, StepSources } from './plan-definition.ts';

/**
 * Values that steps have returned, by step. Only steps that run on a single minion have an entry.
 */
export type StepReturns = ReadonlyMap<string, ParameterValue>;

/** Source that refers to a value in the return of an earlier step. */
export type StepReference = Extract<StepSource, { readonly step: string }>;

/** Returns the names of the plan's parameters from which this source takes its value. */
export function parametersOfStepSource(source: StepSource): string[] {
  if ('parameter' in source) return [source.parameter];
  return 'map' in source ? Object.values(source.map).flatMap(parametersOfStepSource) : [];
}

/** Returns the references to earlier steps in the sources. */
export function stepReferences(sources: StepSources): StepReference[] {
  return Object.values(sources).flatMap((source) => {
    if ('step' in source) return [source];
    return 'map' in source ? stepReferences(source.map) : [];
  });
}

/** Returns the parameters of a command. A parameter is omitted if its source has no value. */
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
): ParameterValue | undefined {
  if ('parameter' in source) return givenParameter(parameters, source.parameter);
  if ('value' in source) return source.value;
  if ('map' in source) return stepParameters(source.map, parameters, returned);
  return valueAtPointer(returned.get(source.step), parseJsonPointer(source.path) ?? []);
}
