/** What a reaction is: an event that is waited for, and a call that follows from it. */
import type { RuleOrigin } from '../../acl/index.ts';
import type { WireValue } from '../../minion-protocol/index.ts';

/**
 * A value of the event in place of a fixed one: `sender`, the id of the minion that emitted it, or
 * `data.env`, where the schema of the signal's rule requires such a text, number, or true or false.
 */
export interface MappedValue {
  readonly from: string;
  /** Whether a text may begin with `-`, which programs take for an option. Default false. */
  readonly dash?: boolean;
}

/** A value of a call. A map with `from` is always a {@link MappedValue}. */
export type CallValue = MappedValue | WireValue;

/** Whom a job is for: an expression, the minion that emitted the event, or exact ids. */
export type ReactionTarget =
  | string
  | { readonly minion: 'sender' }
  | { readonly list: readonly (string | MappedValue)[] };

/** A call with what is taken from the event. */
export interface MappedCall {
  /** `module.function`; never from the event. */
  readonly fun: string;
  /** Text of the event is not among them: a minion would take `name=value` for a keyword. */
  readonly args?: readonly CallValue[];
  readonly kwargs?: Readonly<Record<string, CallValue>>;
}

/** A job for minions. */
export interface RunAction extends MappedCall {
  readonly target: ReactionTarget;
  /** `tgt_type`: what kind of expression `target` is. Default `glob`. */
  readonly tgtType?: string;
}

/** A named command of an extension of the master, such as the bridge. */
export interface CommandAction {
  /** Its name in the catalog; never from the event. */
  readonly name: string;
  readonly target: ReactionTarget;
  /** `tgt_type`: what kind of expression `target` is. Default `glob`. */
  readonly tgtType?: string;
  /** Its parameters, by name. */
  readonly params?: Readonly<Record<string, CallValue>>;
}

/** What a reaction does. */
export type ReactionAction =
  | { readonly run: RunAction }
  | { readonly runner: MappedCall }
  | { readonly command: CommandAction }
  /** What a file of Salt's option `reactor` says: `salt://…`, or an absolute path. */
  | { readonly sls: string };

/** What may be said of a reaction; see {@link reaction}. */
export interface ReactionOptions {
  /** A glob, or several, on the tags of events that the policy let in, or the master fired itself. */
  readonly on: string | readonly string[];
  /** A compound target: only events of these minions. Grains in it give no right. Default: any. */
  readonly from?: string;
  readonly do: ReactionAction;
  /** `once_per`: seconds in which only the first event counts. Default 0: each one counts. */
  readonly oncePer?: number;
  /** `once_by`: what tells events apart for `oncePer`, as in {@link MappedValue}. Default: nothing. */
  readonly onceBy?: readonly string[];
  /** `at_once`: runs at the same time. Default 1. */
  readonly atOnce?: number;
  /** `queue`: runs that may wait; more are dropped and counted. Default 100. */
  readonly queue?: number;
  /** `timeout`: seconds that a run may take. Default 300. */
  readonly timeout?: number;
  /** `rate`: runs that may be asked for, as in rules. Default `60/minute`. */
  readonly rate?: string;
}

/** A reaction, complete. */
export interface Reaction extends Omit<Required<ReactionOptions>, 'from'> {
  readonly name: string;
  readonly from?: string;
  /** Where it was written. */
  readonly origin?: RuleOrigin;
}

/**
 * A reaction for `resolveMasterConfig({ reactions: […] })`. It may do only what rules of the policy
 * permit to the service `reaction:<name>`.
 */
export function reaction(name: string, options: ReactionOptions): Reaction {
  return {
    oncePer: 0,
    onceBy: [],
    atOnce: 1,
    queue: 100,
    timeout: 300,
    rate: '60/minute',
    ...options,
    name,
  };
}

/** The globs that a reaction waits for. */
export function globsOf({ on }: Pick<Reaction, 'on'>): readonly string[] {
  return typeof on === 'string' ? [on] : on;
}

/** What the policy knows a reaction as. */
export function serviceOf(name: string): { readonly kind: 'service'; readonly name: string } {
  return { kind: 'service', name: `reaction:${name}` };
}

/** Whether a value is taken from the event. */
export function isMapped(value: unknown): value is MappedValue {
  return typeof value === 'object' && value !== null && 'from' in value;
}

/** The values of a call, each with its place in words. */
export function valuesOf(action: ReactionAction): (readonly [field: string, value: CallValue])[] {
  if ('sls' in action) return [];
  if ('command' in action) {
    const { params = {} } = action.command;
    return Object.entries(params).map(([name, value]) => [`do.command.params.${name}`, value]);
  }
  const kind = 'run' in action ? 'run' : 'runner';
  const { args = [], kwargs = {} } = 'run' in action ? action.run : action.runner;
  return [
    ...args.map((value, place) => [`do.${kind}.args.${place}`, value] as const),
    ...Object.entries(kwargs).map(([name, value]) => [`do.${kind}.kwargs.${name}`, value] as const),
  ];
}

/** The ids that a job is for, where they are listed. */
export function listedIds(action: ReactionAction): readonly (string | MappedValue)[] {
  const target = targetedOf(action)?.target;
  return typeof target === 'object' && 'list' in target ? target.list : [];
}

/** What has a target in an action, and under which name; `undefined` where nothing has. */
export function targetedOf(
  action: ReactionAction,
): (Pick<RunAction, 'target' | 'tgtType'> & { readonly kind: 'run' | 'command' }) | undefined {
  if ('run' in action) return { kind: 'run', ...action.run };
  return 'command' in action ? { kind: 'command', ...action.command } : undefined;
}
