/** A command that applies states which were compiled before it was called. */

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

/** The states as the one parameter of such a command. */
export function statesParameters({ states, labels }: states.CompiledStates): Parameters {
  return { [statesKey]: states as JsonValue, labels: labels as JsonValue }; // both are JSON
}

/** What each state is for people, of the parameters of such a command. */
export function labelsOf(parameters: Parameters): Readonly<Record<string, string>> {
  const { labels } = parameters;
  return isPlainMap(labels) ? (labels as Readonly<Record<string, string>>) : {}; // written above
}

/** @param definition - its name, and how it is called */
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
      throw new BridgeError('ERR_COMMAND_PARAMETERS', `${definition.name}: states are missing`);
    },
    toCall: (_given, reference) => applyStatesCall(reference),
    pillarOf: (given) => ({ [statesKey]: given[statesKey] ?? {} }),
    // Rules see that there are states, and nothing of them.
    split: (given) => ({ secret: given, open: {} }),
    givesSecrets: () => true,
    problemOfReturn: problemOfStates,
  };
}
