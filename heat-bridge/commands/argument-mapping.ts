/** Mapping of parameters to keyword arguments; never a template. */

import type { WireMap, WireValue } from '#minion-protocol';
import type { JsonValue } from '#runtime';
import type { ArgumentSource } from './command-definition.ts';
import type { Parameters } from './parameters.ts';

/** By keyword. */
export type ArgumentSources = Readonly<Record<string, ArgumentSource>>;

/** The keyword under which a state finds where its secrets are. */
export const secretsKeyword = 'saltbridge_secrets';

/** A parameter that was given; `undefined`: it was not, whatever objects inherit under its name. */
export function givenParameter(parameters: Parameters, name: string): JsonValue | undefined {
  if (!Object.hasOwn(parameters, name)) return undefined;
  return parameters[name];
}

/** The parameters that a source looks at. */
export function parametersOfArgument(source: ArgumentSource): string[] {
  if ('parameter' in source) return [source.parameter];
  return 'map' in source ? Object.values(source.map).flatMap(parametersOfArgument) : [];
}

/** What is not given is not passed on. */
export function argumentValues(sources: ArgumentSources, parameters: Parameters): WireMap {
  const values: WireMap = {};
  for (const [keyword, source] of Object.entries(sources)) {
    const value = argumentOf(source, parameters);
    if (value !== undefined) values[keyword] = value;
  }
  return values;
}

/** `undefined`: a parameter that was not given. */
function argumentOf(source: ArgumentSource, parameters: Parameters): WireValue | undefined {
  if ('parameter' in source) return toWire(givenParameter(parameters, source.parameter));
  return 'value' in source ? toWire(source.value) : argumentValues(source.map, parameters);
}

function toWire(value: JsonValue | undefined): WireValue | undefined {
  return value as WireValue | undefined; // JSON is part of what goes over the wire
}
