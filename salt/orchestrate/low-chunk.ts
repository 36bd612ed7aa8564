import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';
import type { PlainData } from '#template';
import { orderChunks } from '../render/chunk-order.ts';
import { isList, isPillarMap, textOf, toWire } from '../render/pillar-data.ts';
import { argumentsOf, type Body, firstOf, type High } from './high-data.ts';

/** One call of a state. */
export interface Chunk {
  readonly state: string;
  readonly fun: string;
  readonly id: string;
  /** Text, unless one of `names` is none. */
  readonly name: PlainData;
  readonly sls: string | null;
  readonly saltenv: string;
  readonly includedFrom: readonly string[];
  /** Everything else that is said: requisites, and the arguments of the function. */
  readonly args: ReadonlyMap<string, PlainData>;
}

/** Its key in the result. */
export function tagOf({ state, id, name, fun }: Chunk): string {
  return `${state}_|-${id}_|-${textOf(name)}_|-${fun}`;
}

/** Where it is said, as it is told with its result. */
export function placeOf({ id, sls }: Pick<Chunk, 'id' | 'sls'>): WireMap {
  return { __sls__: sls, __id__: id };
}

/** The chunks of high data, in the order in which they are run. */
export function compileChunks({ bodies }: High): Chunk[] {
  const chunks = [...bodies].flatMap(([id, body]) =>
    [...body.states.keys()]
      .filter((state) => !state.startsWith('__'))
      .flatMap((state) => chunksOf(String(id), state, body)),
  );
  const inOrder = orderChunks(chunks, ({ args, nameOrder, state, name, fun }) => ({
    order: args.get('order'),
    nameOrder,
    text: `${state}${textOf(name)}${fun}`,
  }));
  return inOrder.map(({ nameOrder: _, ...chunk }) => chunk);
}

/** Its place among those of the same `names`, from 1 on. */
interface Numbered extends Chunk {
  readonly nameOrder: number;
}

function chunksOf(id: string, state: string, body: Body): Numbered[] {
  const { sls, saltenv, includedFrom } = body;
  const args = new Map<string, PlainData>();
  const names: PlainData[] = [];
  const functions = new Set<string>();
  for (const argument of argumentsOf(body, state)) {
    if (typeof argument === 'string') functions.add(argument);
    if (!isPillarMap(argument)) continue;
    for (const [key, value] of argument) {
      if (key === 'names') names.push(...(isList(value) ? value : []));
      else if (key !== 'state') args.set(textOf(key), value);
    }
  }
  const given = args.get('name');
  args.delete('name');
  const common = { id, state, sls, saltenv, includedFrom };
  const named = [...new Set(names)].map((entry) => withName(entry, args));
  const single = { name: typeof given === 'string' ? given : id, args };
  return [...functions].flatMap((fun) =>
    (named.length === 0 ? [single] : named).map((one, index) => {
      return { ...common, ...one, fun, nameOrder: named.length === 0 ? 0 : index + 1 };
    }),
  );
}

/** One of `names`: a name, or a name with arguments of its own. */
function withName(
  entry: PlainData,
  common: ReadonlyMap<string, PlainData>,
): Pick<Chunk, 'name' | 'args'> {
  const [name, own] = firstOf(entry) ?? [entry, []];
  const added = (isList(own) ? own : []).filter(isPillarMap).flatMap((map) => [...map]);
  const args = new Map(common);
  for (const [key, value] of added) args.set(textOf(key), value);
  return { name, args };
}

// Outcomes [salt/state.py call].

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

// Success of a run [salt/utils/state.py check_result].

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
