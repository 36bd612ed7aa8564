/** Mapping of parameters and earlier results to the parameters of a command. */

import type { JsonValue } from '#runtime';
import { givenParameter } from '../commands/argument-mapping.ts';
import type { Parameters } from '../commands/parameters.ts';
import { parseJsonPointer, valueAtPointer } from './json-pointer.ts';
import type { StepSource, StepSources } from './plan-definition.ts';

/** What the only minion of a step returned, by step. */
export type StepReturns = ReadonlyMap<string, JsonValue>;

/** A place in what a step returned. */
export type StepReference = Extract<StepSource, { readonly step: string }>;

/** The plan's parameters that a source looks at. */
export function parametersOfStepSource(source: StepSource): string[] {
  if ('parameter' in source) return [source.parameter];
  return 'map' in source ? Object.values(source.map).flatMap(parametersOfStepSource) : [];
}

/** The results that sources look at. */
export function stepReferences(sources: StepSources): StepReference[] {
  return Object.values(sources).flatMap((source) => {
    if ('step' in source) return [source];
    return 'map' in source ? stepReferences(source.map) : [];
  });
}

/** What is not given, or was not returned, is not passed on. */
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
