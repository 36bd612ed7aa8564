/** Results of states and of whole runs [salt/state.py call; salt/utils/state.py check_result]. */

import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { toWire } from '../render/pillar-wire.ts';
import { type Chunk, placeOf } from './low-chunk.ts';

/** What a state's function says. */
export interface Outcome {
  /** `null`: it would change something (`test`), or its work is not done yet. */
  readonly result: boolean | null;
  /** By name; empty: nothing changed. */
  readonly changes: WireMap;
  readonly comment: string;
  /** `warnings`, `__jid__`. */
  readonly more?: WireMap;
}

/** One that did not do what it should, and changed nothing. */
export function failed(comment: string): Outcome {
  return { result: false, changes: {}, comment };
}

/** What is told of a state. One that runs beside others is filled in when it ends. */
export interface StateResult {
  /** Text, unless one of `names` is none. */
  readonly name: WireValue;
  outcome: Outcome;
  /** Of Salt's members, those that say where it stands, when it ran and for how long. */
  facts: WireMap;
  /** Requisites may take it as one that ran. */
  readonly didRun: boolean;
  /** Ends when the outcome is there. */
  pending?: Promise<void> | undefined;
}

/** Of a chunk that ran. */
export function resultOf(chunk: Chunk, outcome: Outcome, facts: StateResult['facts']): StateResult {
  return { name: toWire(chunk.name), outcome, facts, didRun: true };
}

/** As it is returned. */
export function toWireResult({ name, outcome, facts }: StateResult): WireMap {
  const { result, changes, comment, more = {} } = outcome;
  return { name, changes, result, comment, ...more, ...facts };
}

/** Whether a state changed something. */
export function hasChanges({ outcome }: StateResult): boolean {
  return Object.keys(outcome.changes).length > 0;
}

/** When a state began, and for how long it ran, as Salt writes both. */
export function timing(startedAt: number, endedAt: number): WireMap {
  return { start_time: timeOfDay(new Date(startedAt)), duration: endedAt - startedAt };
}

/** The result of a state whose function was not called. @param now milliseconds since 1970 */
export function uncalled(
  chunk: Chunk,
  outcome: Omit<Outcome, 'changes'>,
  now: number,
): StateResult {
  const facts = { ...timing(now, now), ...placeOf(chunk) };
  return resultOf(chunk, { ...outcome, changes: {} }, facts);
}

/** In the zone of this machine, as in Salt. */
function timeOfDay(time: Date): string {
  const two = (number: number): string => String(number).padStart(2, '0');
  const seconds = [time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(':');
  return `${seconds}.${String(time.getMilliseconds()).padStart(3, '0')}000`;
}

/** @param recurses a value that is no map fails nothing: so it is within the returns of minions */
export function isSuccess(running: WireValue | undefined, recurses = false): boolean {
  const entries = entriesOf(running);
  if (entries === undefined || entries.length === 0) return false;
  return entries.every(([, state]) => {
    const members = entriesOf(state);
    if (members === undefined) return recurses;
    const result = members.find(([name]) => name === 'result');
    return result === undefined ? isSuccess(state, true) : result[1] !== false;
  });
}

function entriesOf(value: WireValue | undefined): [WireValue, WireValue][] | undefined {
  if (value instanceof Map) return [...value];
  return isWireMap(value) ? Object.entries(value) : undefined;
}

/** Results by tag, in the order in which the chunks were run. */
export type Results = ReadonlyMap<string, StateResult>;
