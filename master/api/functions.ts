import type { WireValue } from '#minion-protocol';

/** Function to run on the master, with its arguments. */
export interface FunctionCall {
  /** Name in the form `module.function`. */
  readonly fun: string;
  readonly arg?: readonly WireValue[];
  readonly kwarg?: Readonly<Record<string, WireValue>>;
  /**
   * Name of the user in the events. Default: `saltbridge`. Over the local socket it is the calling
   * account, or `sudo_<name>` if that is given.
   */
  readonly user?: string;
  /** Job id of twenty digits that was not used before. Default: a new one. */
  readonly jid?: string;
  /**
   * Whether to omit keywords that the function does not accept. By default, such a call is
   * rejected.
   */
  readonly dropUnknown?: boolean;
  /**
   * Time that minions have to respond, in seconds. A timeout among the function's own arguments
   * takes precedence.
   */
  readonly timeoutSeconds?: number;
}

/** Result of a function. The fields are those of the event `…/ret`. */
export interface FunctionResult {
  readonly jid: string;
  /** Name with its prefix: `runner.jobs.list_jobs`. */
  readonly fun: string;
  readonly return: WireValue;
  readonly success: boolean;
  /** Return code. Present only if the function failed or set it. */
  readonly retcode?: number;
}

/** Call that was started without waiting for its result. */
export interface StartedCall {
  readonly jid: string;
  /** Prefix of the tags of its events: `<tag>/new`, `<tag>/ret`. */
  readonly tag: string;
}
