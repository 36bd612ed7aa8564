/** From a plan's parameters and earlier results to the parameters of a command: a mapping. */
import { givenParameter, type Parameters } from '../catalog/argument-values.ts';
import type { JsonValue } from '../catalog/definition.ts';
import type { StepSource, StepSources } from './definition.ts';
import { keysOf, valueAt } from './pointer.ts';

/** What the only minion of a step returned, by step. */
export type Returned = ReadonlyMap<string, JsonValue>;

/** A place in what a step returned. */
export type StepReference = Extract<StepSource, { readonly step: string }>;

/** The plan's parameters that a source looks at. */
export function parametersIn(source: StepSource): string[] {
  if ('parameter' in source) return [source.parameter];
  return 'map' in source ? Object.values(source.map).flatMap(parametersIn) : [];
}

/** The results that sources look at. */
export function referencesIn(sources: StepSources): StepReference[] {
  return Object.values(sources).flatMap((source) => {
    if ('step' in source) return [source];
    return 'map' in source ? referencesIn(source.map) : [];
  });
}

/** What is not given, or was not returned, is not passed on. */
export function valuesOf(
  sources: StepSources,
  parameters: Parameters,
  returned: Returned,
): Parameters {
  const values = Object.entries(sources).flatMap(([key, source]) => {
    const value = sourced(source, parameters, returned);
    return value === undefined ? [] : [[key, value] as const];
  });
  return Object.fromEntries(values);
}

function sourced(
  source: StepSource,
  parameters: Parameters,
  returned: Returned,
): JsonValue | undefined {
  if ('parameter' in source) return givenParameter(parameters, source.parameter);
  if ('value' in source) return source.value;
  if ('map' in source) return valuesOf(source.map, parameters, returned);
  return valueAt(returned.get(source.step), keysOf(source.path) ?? []);
}
