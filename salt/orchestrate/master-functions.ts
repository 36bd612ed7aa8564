import type { PlainData } from '#template';
import type { AskedFunctions, NamedData } from '../render/asked-functions.ts';
import type { ConditionFunctions } from './conditions.ts';

/** Functions of the master that states of an orchestration may call, by name. */
export type MasterFunctions = ReadonlyMap<
  string,
  (args: readonly PlainData[], kwargs: NamedData) => unknown
>;

/**
 * Returns a table with the functions of both parameters. The conditions of states (`onlyif`,
 * `unless`) can call all functions of the table.
 * @param functions - functions without side effects
 * @param asked - functions that run on the main thread and may have side effects
 */
export function joinFunctions(
  functions: ConditionFunctions,
  asked: AskedFunctions,
): MasterFunctions {
  return new Map([...Object.entries(functions), ...Object.entries(asked)]);
}
