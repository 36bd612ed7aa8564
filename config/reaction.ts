/** Types of the reactions under `saltbridge: reactions:`. */

import type { RuleOrigin } from '#acl';
import type { WireValue } from '#minion-protocol';

/** Reaction with its defaults filled in. */
export interface Reaction extends Omit<Required<ReactionOptions>, 'from'> {
  readonly name: string;
  readonly from?: string;
  /** Location of the reaction in the configuration. */
  readonly origin?: RuleOrigin;
}

/** Options of a reaction. */
export interface ReactionOptions {
  /**
   * Globs on the tags of events. Only events that the policy accepted and events of the master can
   * match.
   */
  readonly on: string | readonly string[];
  /**
   * Compound target that limits the senders. Default: any sender. A condition on grains can exclude
   * a sender, but a minion never matches by its grains alone.
   */
  readonly from?: string;
  readonly do: ReactionAction;
  /**
   * `throttle`: period after an event, in seconds. Further events in this period are ignored.
   * Default: 0, no event is ignored.
   */
  readonly throttleSeconds?: number;
  /**
   * `throttle_key`: paths of values in the event, for example `data.env`. Events are throttled
   * together if their values at all paths are equal. Default: all events are throttled together.
   */
  readonly throttleKey?: readonly string[];
  /** `max_concurrent`: maximum number of concurrent runs. Default: 1. */
  readonly maxConcurrent?: number;
  /**
   * `queue`: maximum number of waiting runs. Further runs are dropped and counted. Default: 100.
   */
  readonly queue?: number;
  /** `timeout`: time limit for a run, in seconds. Default: 300. */
  readonly timeoutSeconds?: number;
  /** `rate`: rate limit of requested runs, for example `10/minute`. Default: `60/minute`. */
  readonly rate?: string;
}

/** The action of a reaction. */
export type ReactionAction =
  | { readonly run: RunAction }
  | { readonly runner: MappedCall }
  | { readonly command: CommandAction }
  /** Reactor file, as in Salt's option `reactor`: `salt://…`, or an absolute path. */
  | { readonly sls: string };

/** A job for minions. */
export interface RunAction extends MappedCall {
  readonly target: ReactionTarget;
  /** `tgt_type`: type of `target`. Default: `glob`. */
  readonly tgtType?: string;
}

/** Call. Its arguments may contain values from the event. */
interface MappedCall {
  /** Name of the function, `module.function`. It cannot be taken from the event. */
  readonly fun: string;
  /**
   * Positional arguments. Text from the event is not permitted here, because a minion would convert
   * `name=value` to a keyword argument.
   */
  readonly args?: readonly CallValue[];
  readonly kwargs?: Readonly<Record<string, CallValue>>;
}

/** Named command that an extension of the master provides, for example the bridge. */
interface CommandAction {
  /** Name of the command in the catalog. It cannot be taken from the event. */
  readonly name: string;
  readonly target: ReactionTarget;
  /** `tgt_type`: type of `target`. Default: `glob`. */
  readonly tgtType?: string;
  /** Parameters by name. */
  readonly params?: Readonly<Record<string, CallValue>>;
}

/**
 * Minions that a job is published to: the minions that match an expression, the minion that emitted
 * the event, or a list of ids.
 */
type ReactionTarget =
  | string
  | { readonly minion: 'sender' }
  | { readonly list: readonly (string | MappedValue)[] };

/**
 * Argument or parameter of a call: a constant, or a reference to a value of the event. A map with
 * `from` is always such a reference ({@link MappedValue}).
 */
export type CallValue = MappedValue | WireValue;

/**
 * Reference to a value of the event: `sender` (the id of the minion that emitted it), or a path
 * such as `data.env`. The schema of the signal rule must require text, a number or a boolean at
 * this path.
 */
export interface MappedValue {
  readonly from: string;
  /**
   * Whether the text may begin with `-`, although programs would interpret such a text as an
   * option. Default: false.
   */
  readonly dash?: boolean;
}
