import type { PlainData } from '#template';
import { textOf } from '../render/pillar-wire.ts';
import type { BegunWork, JournalStep } from './journal.ts';
import { internalArguments } from './state-keywords.ts';
import type { Outcome } from './state-result.ts';

/** One call of a state's function. */
export interface StateCall {
  readonly name: string;
  /** What is given by name, `name` not among it. */
  readonly given: ReadonlyMap<string, PlainData>;
  readonly saltenv: string;
  /** Nothing is to be changed. */
  readonly test: boolean;
  /** Of `mod_watch`: `state: id` of those that it watches and that changed something. */
  readonly changed: readonly string[];
  /** What of it is written down; `undefined`: nothing. */
  readonly step: JournalStep | undefined;
}

/** A state's function. */
export interface StateFunction {
  /** Arguments that must be given, besides `name`. */
  readonly required?: readonly string[];
  /** Others that it takes. */
  readonly optional?: readonly string[];
  /** Takes whatever is given besides. */
  readonly takesMore?: true;
  /** @throws MasterError, SlsError: the state has failed */
  readonly call: (call: StateCall) => Promise<Outcome> | Outcome;
}

/** Functions of states by their names, `salt.function`. */
export type StateTable = ReadonlyMap<string, StateFunction>;

/** What an SLS says is of no use to a state; in Salt's words. */
export class SlsError extends Error {
  constructor(problem: string) {
    super(problem);
    this.name = new.target.name;
  }
}

/** Begins what has no job. @throws SlsError where a member began it that is gone: its end nobody knows */
export async function beginOnce(
  step: JournalStep | undefined,
  what: string,
): Promise<BegunWork | undefined> {
  const begun = await step?.begin();
  if (begun?.wasBegun === true) {
    throw new SlsError(`another member began ${what} and ended: it may have been done in part`);
  }
  return begun;
}

/**
 * What of a chunk's arguments a function gets.
 * @param full its name
 * @throws SlsError for what it does not take
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

/** A text that is given; anything else as Python prints it. */
export function textGiven(call: StateCall, name: string): string | undefined {
  const value = call.given.get(name);
  return value === undefined || value === null ? undefined : textOf(value);
}

/** Whether a value counts as true in Python. */
export function isTrue(value: PlainData | undefined): boolean {
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Map) return value.size > 0;
  return Boolean(value);
}
