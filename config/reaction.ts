/** Types of the reactions under `saltbridge: reactions:`. */

import type { RuleOrigin } from '#acl';
import type { WireValue } from '#minion-protocol';

/** A reaction with defaults filled in. */
export interface Reaction extends Omit<Required<ReactionOptions>, 'from'> {
  readonly name: string;
  readonly from?: string;
  /** Place of the reaction in the configuration. */
  readonly origin?: RuleOrigin;
}

/** Options of a reaction. */
export interface ReactionOptions {
  /**
   * One or more globs on the tags of events that the policy accepted or that the master emitted.
   */
  readonly on: string | readonly string[];
  /** Compound target that limits the senders. Grains in it grant no right. Default: any sender. */
  readonly from?: string;
  readonly do: ReactionAction;
  /**
   * `throttle`: period in seconds in which only the first event counts. Default: 0, every event
   * counts.
   */
  readonly throttleSeconds?: number;
  /**
   * `throttle_key`: paths as in {@link MappedValue}. Events are throttled together if their values
   * at these paths are equal. Default: all events together.
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
  /** `rate`: rate limit for requested runs, as in rules. Default: `60/minute`. */
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

/** A call with values from the event. */
interface MappedCall {
  /** Function name, `module.function`. It never comes from the event. */
  readonly fun: string;
  /**
   * Positional arguments. Text of the event is not permitted here, because a minion would convert
   * `name=value` to a keyword argument.
   */
  readonly args?: readonly CallValue[];
  readonly kwargs?: Readonly<Record<string, CallValue>>;
}

/** A named command of a master extension, such as the bridge. */
interface CommandAction {
  /** Name in the catalog. It never comes from the event. */
  readonly name: string;
  readonly target: ReactionTarget;
  /** `tgt_type`: type of `target`. Default: `glob`. */
  readonly tgtType?: string;
  /** Parameters by name. */
  readonly params?: Readonly<Record<string, CallValue>>;
}

/** Minions that get a job: an expression, the minion that emitted the event, or exact ids. */
type ReactionTarget =
  | string
  | { readonly minion: 'sender' }
  | { readonly list: readonly (string | MappedValue)[] };

/** Value of a call. A map with `from` is always a {@link MappedValue}. */
export type CallValue = MappedValue | WireValue;

/**
 * A value from the event: `sender`, the id of the minion that emitted it, or a path such as
 * `data.env`. The schema of the signal rule must require text, a number or a boolean at this path.
 */
export interface MappedValue {
  readonly from: string;
  /** Whether the text may begin with `-`, which programs interpret as an option. Default: false. */
  readonly dash?: boolean;
}
