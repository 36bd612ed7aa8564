import type { PlainData } from '#template';
import { textOf } from '../render/pillar-wire.ts';
import type { BegunWork, JournalStep } from './journal.ts';
import { internalArguments } from './state-keywords.ts';
import type { Outcome } from './state-result.ts';

/** One call of a state's function. */
export interface StateCall {
  readonly name: string;
  /** Arguments of the call, by name. The argument `name` is not included. */
  readonly given: ReadonlyMap<string, PlainData>;
  readonly saltenv: string;
  /** Whether to run in test mode, without changes. */
  readonly test: boolean;
  /**
   * Watched states that have made changes, as `state: id`. Empty except for calls of `mod_watch`.
   */
  readonly changed: readonly string[];
  /** Journal entry of the call. If it is `undefined`, the call is not recorded. */
  readonly step: JournalStep | undefined;
}

/** Definition of a state's function. */
export interface StateFunction {
  /** Names of required arguments, besides `name`. */
  readonly required?: readonly string[];
  /** Names of optional arguments. */
  readonly optional?: readonly string[];
  /** Whether the function accepts arguments that neither `required` nor `optional` lists. */
  readonly takesMore?: true;
  /**
   * Runs the function.
   * @throws MasterError, SlsError if the state has failed
   */
  readonly call: (call: StateCall) => Promise<Outcome> | Outcome;
}

/** State functions by name, such as `salt.function`. */
export type StateTable = ReadonlyMap<string, StateFunction>;

/** Error for an argument that a state does not accept. The message uses Salt's words. */
export class SlsError extends Error {
  constructor(problem: string) {
    super(problem);
    this.name = new.target.name;
  }
}

/**
 * Records in the journal that a state is about to start work that must run only once, such as a
 * runner or a batch.
 * @param step - journal entry of the state; `undefined`: nothing is recorded
 * @param what - description of the work for the error message
 * @throws SlsError if another member started this work and then stopped, so that its result is
 * unknown
 */
export async function beginOnce(
  step: JournalStep | undefined,
  what: string,
): Promise<BegunWork | undefined> {
  const begun = await step?.begin();
  if (begun?.wasBegun === true) {
    throw new SlsError(
      `another member stopped while running ${what}; parts of it may have taken effect`,
    );
  }
  return begun;
}

/**
 * Returns the arguments that a chunk passes to its function.
 * @param full - full name of the function
 * @throws SlsError for arguments that the function does not accept
 */
export function givenTo(
  { required = [], optional = [], takesMore }: StateFunction,
  args: ReadonlyMap<string, PlainData>,
  full: string,
): ReadonlyMap<string, PlainData> {
  const named = new Set([...required, ...optional]);
  const isMeant = (name: string): boolean => named.has(name) || !internalArguments.has(name);
  const given = new Map([...args].filter(([name]) => isMeant(name)));
  const strange = takesMore === true ? [] : [...given.keys()].filter((name) => !named.has(name));
  if (strange.length === 0) return given;
  const quoted = strange.map((name) => `'${name}'`);
  const last = quoted.pop();
  throw new SlsError(
    quoted.length === 0
      ? `${last} is an invalid keyword argument for '${full}'`
      : `${quoted.join(', ')} and ${last} are invalid keyword arguments for '${full}'`,
  );
}

/** Returns an argument as text. Values that are not text are formatted as in Python. */
export function textGiven(call: StateCall, name: string): string | undefined {
  const value = call.given.get(name);
  return value === undefined || value === null ? undefined : textOf(value);
}

/** Whether a value is true in Python. */
export function isTrue(value: PlainData | undefined): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Map) return value.size > 0;
  return Boolean(value);
}
