/** Determines the calls that an event triggers. The result is plain data. */

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

/** A call in which all values of the event are already inserted. */
export type PlannedCall = TargetedCall | MastersCall;

interface AnyCall {
  /** Name of the function or command. */
  readonly fun: string;
  readonly arg: readonly WireValue[];
  /** Keyword arguments of the function, or parameters of the command. */
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** A call for minions: a job, or a named command. A named command has no `arg`. */
export interface TargetedCall extends AnyCall {
  readonly kind: 'run' | 'command';
  readonly target: TargetRequest;
}

/** A call that runs on the master. */
export interface MastersCall extends AnyCall {
  readonly kind: 'runner' | 'wheel';
}

/** Reason why an event triggers no call. Metrics count the event as `reaction-<reason>`. */
export type PlanObstacle =
  | 'no-sender'
  | 'no-value'
  | 'dash'
  | 'positional-text'
  /** Salt would interpret text of the event as a call or a look-up. */
  | 'interpreted'
  /**
   * `no-file`: the reactor file does not exist. `render`: it cannot be rendered. `form`: it is not
   * a valid reactor file.
   */
  | 'no-file'
  | 'render'
  | 'form'
  /**
   * `caller`: the reactor file calls the unsupported state `caller`. `pattern`: the call uses event
   * text as a pattern, target or function name.
   */
  | 'caller'
  | 'pattern';

/** A call that is not made, and the reason. */
export interface Refusal {
  readonly reason: PlanObstacle;
  /** Explanation for operators, with the file and the problem. It contains no data of the event. */
  readonly why?: string;
}

/**
 * Calls that a reaction makes for an event (`calls`), and calls that are not made, each with the
 * reason (`refused`).
 */
export interface Plan {
  readonly calls: readonly PlannedCall[];
  readonly refused: readonly Refusal[];
}

/** Function that determines the calls for an event. Each call is queued separately. */
export type Planner = (event: ReactionEvent) => Plan | Promise<Plan>;

/** Action of a reaction that defines its call in the configuration, not in a reactor file. */
type PlainAction = Exclude<Reaction['do'], { sls: unknown }>;

/** Error for a call that cannot be planned. */
class Obstacle extends Error {
  readonly reason: PlanObstacle;

  constructor(reason: PlanObstacle) {
    super(reason);
    this.name = new.target.name;
    this.reason = reason;
  }
}

/**
 * Creates the planner of a reaction with a single call. The planner inserts values of the event
 * into the call.
 */
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
 * Returns a value of an event if it is a text, number or boolean. Returns `undefined` for other
 * types and missing values.
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
  return isPlain ? (value as string | number | boolean) : undefined; // checked above
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
  // A value of the event in a list is a whole id, so it is never interpreted as a target
  // expression.
  return { tgt: ids.map((id) => String(resolve(id, event))), tgtType: 'list' };
}

/**
 * Resolves a positional argument. Rejects text from the event, because minions parse positional
 * texts again: the text `name=value` would become a keyword argument [WIRE 11.5].
 */
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
