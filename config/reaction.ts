/** Types of the reactions under `saltbridge: reactions:`. */

import type { RuleOrigin } from '#acl';
import type { WireValue } from '#minion-protocol';

/** A reaction with its defaults. */
export interface Reaction extends Omit<Required<ReactionOptions>, 'from'> {
  readonly name: string;
  readonly from?: string;
  /** Where it was written. */
  readonly origin?: RuleOrigin;
}

/** Options of a reaction. */
export interface ReactionOptions {
  /** A glob, or several, on the tags of events that the policy let in, or the master fired itself. */
  readonly on: string | readonly string[];
  /** A compound target: only events of these minions. Grains in it give no right. Default: any. */
  readonly from?: string;
  readonly do: ReactionAction;
  /** `throttle`: only the first event in so many seconds counts. Default 0: each event counts. */
  readonly throttleSeconds?: number;
  /** `throttle_key`: events with the same values of these are throttled together, as in {@link MappedValue}. Default: all events. */
  readonly throttleKey?: readonly string[];
  /** `max_concurrent`: runs at the same time. Default 1. */
  readonly maxConcurrent?: number;
  /** `queue`: runs that may wait; more are dropped and counted. Default 100. */
  readonly queue?: number;
  /** `timeout`: seconds that a run may take. Default 300. */
  readonly timeoutSeconds?: number;
  /** `rate`: runs that may be asked for, as in rules. Default `60/minute`. */
  readonly rate?: string;
}

/** The action of a reaction. */
export type ReactionAction =
  | { readonly run: RunAction }
  | { readonly runner: MappedCall }
  | { readonly command: CommandAction }
  /** What a file of Salt's option `reactor` says: `salt://…`, or an absolute path. */
  | { readonly sls: string };

/** A job for minions. */
export interface RunAction extends MappedCall {
  readonly target: ReactionTarget;
  /** `tgt_type`: what kind of expression `target` is. Default `glob`. */
  readonly tgtType?: string;
}

/** A call with what is taken from the event. */
interface MappedCall {
  /** `module.function`; never from the event. */
  readonly fun: string;
  /** Text of the event is not among them: a minion would take `name=value` for a keyword. */
  readonly args?: readonly CallValue[];
  readonly kwargs?: Readonly<Record<string, CallValue>>;
}

/** A named command of an extension of the master, such as the bridge. */
interface CommandAction {
  /** Its name in the catalog; never from the event. */
  readonly name: string;
  readonly target: ReactionTarget;
  /** `tgt_type`: what kind of expression `target` is. Default `glob`. */
  readonly tgtType?: string;
  /** Its parameters, by name. */
  readonly params?: Readonly<Record<string, CallValue>>;
}

/** Whom a job is for: an expression, the minion that emitted the event, or exact ids. */
type ReactionTarget =
  | string
  | { readonly minion: 'sender' }
  | { readonly list: readonly (string | MappedValue)[] };

/** A value of a call. A map with `from` is always a {@link MappedValue}. */
export type CallValue = MappedValue | WireValue;

/**
 * A value of the event in place of a fixed one: `sender`, the id of the minion that emitted it, or
 * `data.env`, where the schema of the signal's rule requires such a text, number, or true or false.
 */
export interface MappedValue {
  readonly from: string;
  /** Whether a text may begin with `-`, which programs take for an option. Default false. */
  readonly dash?: boolean;
}
