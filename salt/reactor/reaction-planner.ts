/** Compiles reactions, and plans the calls that follow from an event, as data. */

import {
  type CallValue,
  isMapped,
  type MappedValue,
  pathOf,
  type Reaction,
  type RunAction,
} from '#config';
import type { ReactionEvent, TargetRequest } from '#master';
import { findInterpretedText, isWireMap, type WireValue } from '#minion-protocol';

/** A call that is to be made. Nothing in it is looked up in the event any more. */
export type PlannedCall = TargetedCall | MastersCall;

interface AnyCall {
  /** Function, or name of a command. */
  readonly fun: string;
  readonly arg: readonly WireValue[];
  /** Keywords, or parameters of a command. */
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** What is for minions: a job, or a named command, which has no `arg`. */
export interface TargetedCall extends AnyCall {
  readonly kind: 'run' | 'command';
  readonly target: TargetRequest;
}

/** What the master does itself. */
export interface MastersCall extends AnyCall {
  readonly kind: 'runner' | 'wheel';
}

/** Why nothing follows from an event; counted as `reaction-<reason>`. */
export type PlanObstacle =
  | 'no-sender'
  | 'no-value'
  | 'dash'
  | 'positional-text'
  /** Salt would interpret text of the event: call it, or look it up. */
  | 'interpreted'
  /** The file is not there, cannot be rendered, or is not the form of one for the reactor. */
  | 'no-file'
  | 'render'
  | 'form'
  /** A call that runs in the master itself, or text of the event as a pattern or a function. */
  | 'caller'
  | 'pattern';

/** Why a call is not made. */
export interface Refusal {
  readonly reason: PlanObstacle;
  /** For a person: which file, and what in it. Nothing of the event. */
  readonly why?: string;
}

/** What follows from an event, and what does not. */
export interface Plan {
  readonly calls: readonly PlannedCall[];
  readonly refused: readonly Refusal[];
}

/** Says what follows from an event: any number of calls, each of which is queued by itself. */
export type Planner = (event: ReactionEvent) => Plan | Promise<Plan>;

/** A call that the reaction itself spells out. */
type PlainAction = Exclude<Reaction['do'], { sls: unknown }>;

/** Ends the making of a plan. */
class Obstacle extends Error {
  readonly reason: PlanObstacle;

  constructor(reason: PlanObstacle) {
    super(reason);
    this.name = new.target.name;
    this.reason = reason;
  }
}

/** The planner of a reaction: its one call, with the event's values in their places. */
export function createPlanner(action: PlainAction): Planner {
  return (event) => {
    try {
      return { calls: [planCall(action, event)], refused: [] };
    } catch (error) {
      if (error instanceof Obstacle) return { calls: [], refused: [{ reason: error.reason }] };
      throw error;
    }
  };
}

/**
 * A value of an event: text, a number, or true or false.
 * @returns `undefined` where there is none
 */
export function valueAt(
  from: string,
  { sender, data }: ReactionEvent,
): string | number | boolean | undefined {
  if (from === 'sender') return sender;
  let value: WireValue | undefined = data;
  for (const name of pathOf(from)) {
    value = isWireMap(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  }
  const isPlain = ['string', 'number', 'boolean'].includes(typeof value);
  return isPlain ? (value as string | number | boolean) : undefined; // just looked at
}

function planCall(action: PlainAction, event: ReactionEvent): PlannedCall {
  if ('command' in action) {
    const { name: fun, params = {} } = action.command;
    const target = targetOf(action.command, event);
    return { kind: 'command', fun, target, arg: [], kwarg: named(params, event) };
  }
  const { fun, args = [], kwargs = {} } = 'run' in action ? action.run : action.runner;
  const arg = args.map((value) => positional(value, event));
  const kwarg = named(kwargs, event);
  if ('runner' in action) return { kind: 'runner', fun, arg, kwarg };
  return { kind: 'run', fun, target: targetOf(action.run, event), arg, kwarg };
}

function named(
  values: Readonly<Record<string, CallValue>>,
  event: ReactionEvent,
): Readonly<Record<string, WireValue>> {
  const entries = Object.entries(values);
  return Object.fromEntries(entries.map(([name, value]) => [name, resolve(value, event)]));
}

function targetOf(
  { target, tgtType = 'glob' }: Pick<RunAction, 'target' | 'tgtType'>,
  event: ReactionEvent,
): TargetRequest {
  if (typeof target === 'string') return { tgt: target, tgtType };
  const ids = 'list' in target ? target.list : [{ from: target.minion }];
  // A list is of whole ids, so nothing in a value of the event is an expression.
  return { tgt: ids.map((id) => String(resolve(id, event))), tgtType: 'list' };
}

/** A minion reads a positional text again: `name=value` becomes a keyword [WIRE 11.5]. */
function positional(value: CallValue, event: ReactionEvent): WireValue {
  const resolved = resolve(value, event);
  if (isMapped(value) && typeof resolved === 'string') throw new Obstacle('positional-text');
  return resolved;
}

function resolve(value: CallValue, event: ReactionEvent): WireValue {
  return isMapped(value) ? mapped(value, event) : value;
}

function mapped({ from, dash = false }: MappedValue, event: ReactionEvent): WireValue {
  const value = valueAt(from, event);
  if (value === undefined) throw new Obstacle(from === 'sender' ? 'no-sender' : 'no-value');
  if (typeof value === 'string' && value.startsWith('-') && !dash) throw new Obstacle('dash');
  if (findInterpretedText(value) !== undefined) throw new Obstacle('interpreted');
  return value;
}
