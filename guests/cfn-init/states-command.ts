/** Command that applies precompiled states. */

import {
  BridgeError,
  type Catalog,
  type CommandDefinition,
  isPlainMap,
  type Parameters,
  states,
} from '#heat-bridge';
import type { JsonValue } from '#runtime';

const { applyStatesCall, problemOfStates, statesFunction, statesKey } = states;

/** Returns the parameters with which a command of `createStatesCommand` applies compiled states. */
export function statesParameters({ states, labels }: states.CompiledStates): Parameters {
  return { [statesKey]: states as JsonValue, labels: labels as JsonValue }; // both are JSON
}

/**
 * Returns the name of each state in error messages, by state id. The parameters must come from
 * `statesParameters`.
 */
export function labelsOf(parameters: Parameters): Readonly<Record<string, string>> {
  const { labels } = parameters;
  return isPlainMap(labels) ? (labels as Readonly<Record<string, string>>) : {}; // written above
}

/**
 * Creates a command that applies compiled states.
 * @param definition - name and options of the command
 */
export function createStatesCommand(
  definition: Pick<CommandDefinition, 'description' | 'name' | 'timeoutSeconds' | 'within'>,
): ReturnType<Catalog['get']> {
  const isCompiled = (given: unknown): given is Parameters =>
    isPlainMap(given) && isPlainMap(given[statesKey]);
  return {
    definition: { ...definition, function: statesFunction },
    fun: statesFunction,
    standing: 'unsafe',
    check: (given) => {
      if (isCompiled(given)) return given;
      throw new BridgeError(
        'ERR_COMMAND_PARAMETERS',
        `${definition.name}: the parameters contain no compiled states`,
      );
    },
    toCall: (_given, reference) => applyStatesCall(reference),
    pillarOf: (given) => ({ [statesKey]: given[statesKey] ?? {} }),
    // Policy rules see that states are applied, but not their content.
    split: (given) => ({ secret: given, open: {} }),
    givesSecrets: () => true,
    problemOfReturn: problemOfStates,
  };
}
