/** Results of states and of whole runs [salt/state.py call; salt/utils/state.py check_result]. */

import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import { toWire } from '../render/pillar-wire.ts';
import { type Chunk, placeOf } from './low-chunk.ts';

/** Outcome of a state's function. */
export interface Outcome {
  /**
   * `true` for success and `false` for failure. `null` in test mode if the state would make
   * changes, or if its work is not finished.
   */
  readonly result: boolean | null;
  /** Changes that the state made, by name. Empty if nothing changed. */
  readonly changes: WireMap;
  /** Comment of the state. It is a text, unless `test.show_notification` shows another value. */
  readonly comment: WireValue;
  /** Additional members of the published result: `warnings`, `__jid__`. Default: none. */
  readonly more?: WireMap;
}

/** Returns the outcome of a failure without changes. */
export function failed(comment: string): Outcome {
  return { result: false, changes: {}, comment };
}

/** Returns the outcome of a state that would make changes, in test mode. */
export function untouched(comment: string): Outcome {
  return { result: null, changes: {}, comment };
}

/** Result of a state. The result of a parallel state is incomplete until the state has ended. */
export interface StateResult {
  /** Name of the state. It is a text, unless the list `names` contains an entry of another type. */
  readonly name: WireValue;
  outcome: Outcome;
  /** Position in the run, start time and duration, under the names that Salt uses in results. */
  facts: WireMap;
  /** Whether requisites of other states count this state as run. */
  readonly didRun: boolean;
  /** Resolves when the outcome of a parallel state is available. */
  pending?: Promise<void> | undefined;
}

/** Returns the result of a state (a chunk) that was run. */
export function resultOf(chunk: Chunk, outcome: Outcome, facts: StateResult['facts']): StateResult {
  return { name: toWire(chunk.name), outcome, facts, didRun: true };
}

/** Converts a result to its wire form. */
export function toWireResult({ name, outcome, facts }: StateResult): WireMap {
  const { result, changes, comment, more = {} } = outcome;
  return { name, changes, result, comment, ...more, ...facts };
}

/** Whether a state made changes. */
export function hasChanges({ outcome }: StateResult): boolean {
  return Object.keys(outcome.changes).length > 0;
}

/** Returns start time and duration in Salt's format. */
export function timing(startedAt: number, endedAt: number): WireMap {
  return { start_time: timeOfDay(new Date(startedAt)), duration: endedAt - startedAt };
}

/**
 * Returns the result of a state whose function was not called.
 * @param now - milliseconds since 1970
 */
export function uncalled(
  chunk: Chunk,
  outcome: Omit<Outcome, 'changes'>,
  now: number,
): StateResult {
  const facts = { ...timing(now, now), ...placeOf(chunk) };
  return resultOf(chunk, { ...outcome, changes: {} }, facts);
}

/** Formats the time of day in the local time zone, as in Salt. */
function timeOfDay(time: Date): string {
  const two = (number: number): string => String(number).padStart(2, '0');
  const seconds = [time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(':');
  return `${seconds}.${String(time.getMilliseconds()).padStart(3, '0')}000`;
}

/**
 * Whether no state in the results of a run, or in the return of a minion, has failed. False for an
 * empty map, and for a value that is not a map.
 * @param recurses - whether `running` is only a part of a minion's return. Members of such a part
 * that are not maps count as success
 */
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

/** Results by tag, in the order in which the chunks ran. */
export type Results = ReadonlyMap<string, StateResult>;
