import type { PlainData } from '#template';
import type { AskedFunctions, NamedData } from '../render/asked-functions.ts';
import type { ConditionFunctions } from './conditions.ts';

/** The functions that states of an orchestration may call on the master, by name. */
export type MasterFunctions = ReadonlyMap<
  string,
  (args: readonly PlainData[], kwargs: NamedData) => unknown
>;

/** @param asked those that ask the master, which may have effects */
export function joinFunctions(
  functions: ConditionFunctions,
  asked: AskedFunctions,
): MasterFunctions {
  return new Map([...Object.entries(functions), ...Object.entries(asked)]);
}
