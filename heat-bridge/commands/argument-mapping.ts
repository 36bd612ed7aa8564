/**
 * Maps parameters of a command to keyword arguments of a function. Values are never interpreted as
 * templates.
 */

import type { WireMap, WireValue } from '#minion-protocol';
import type { ArgumentSource } from './command-definition.ts';
import type { Parameters, ParameterValue } from './parameters.ts';

/** Sources of the values of arguments, by keyword. */
export type ArgumentSources = Readonly<Record<string, ArgumentSource>>;

/**
 * Key that a command adds to the argument `pillar` of `state.apply`. Its value is the random
 * reference to the run's secrets. The minion finds the secrets in its own pillar, at
 * `saltbridge:secrets:<reference>`.
 */
export const secretsKeyword = 'saltbridge_secrets';

/**
 * Returns the value of a parameter, or `undefined` if it was not given. Ignores inherited
 * properties such as `toString`.
 */
export function givenParameter(parameters: Parameters, name: string): ParameterValue | undefined {
  if (!Object.hasOwn(parameters, name)) return undefined;
  return parameters[name];
}

/** Returns the names of the parameters that a source uses. */
export function parametersOfArgument(source: ArgumentSource): string[] {
  if ('parameter' in source) return [source.parameter];
  return 'map' in source ? Object.values(source.map).flatMap(parametersOfArgument) : [];
}

/** Returns the values of arguments. Arguments without a value are omitted. */
export function argumentValues(sources: ArgumentSources, parameters: Parameters): WireMap {
  const values: WireMap = {};
  for (const [keyword, source] of Object.entries(sources)) {
    const value = argumentOf(source, parameters);
    if (value !== undefined) values[keyword] = value;
  }
  return values;
}

/** Returns the value of an argument, or `undefined` if its parameter was not given. */
function argumentOf(source: ArgumentSource, parameters: Parameters): WireValue | undefined {
  if ('parameter' in source) return toWire(givenParameter(parameters, source.parameter));
  return 'value' in source ? toWire(source.value) : argumentValues(source.map, parameters);
}

function toWire(value: ParameterValue | undefined): WireValue | undefined {
  return value as WireValue | undefined; // every JSON value is a wire value
}
