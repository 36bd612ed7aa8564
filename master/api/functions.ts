import type { WireValue } from '#minion-protocol';

/** Call of a function that runs on the master, with its arguments. */
export interface FunctionCall {
  /** Name in the form `module.function`. */
  readonly fun: string;
  readonly arg?: readonly WireValue[];
  readonly kwarg?: Readonly<Record<string, WireValue>>;
  /**
   * Name of the user in the events. Default: `saltbridge`. For calls over the local socket, the
   * master uses the name of the calling account, unless the caller passes a name that begins with
   * `sudo_`.
   */
  readonly user?: string;
  /** Job id of twenty digits, which must not have been used before. Default: a new id. */
  readonly jid?: string;
  /**
   * Whether to omit keyword arguments that the function does not accept. By default, a call with
   * unknown keyword arguments is rejected.
   */
  readonly dropUnknown?: boolean;
  /**
   * Time that minions have to respond, if the function sends jobs to minions, in seconds. A timeout
   * in the arguments of the function takes precedence. Default: the option `timeout`.
   */
  readonly timeoutSeconds?: number;
}

/** Result of a function on the master. The fields are those of the event `…/ret`. */
export interface FunctionResult {
  readonly jid: string;
  /**
   * Name of the function with the prefix `runner.` or `wheel.`, for example
   * `runner.jobs.list_jobs`.
   */
  readonly fun: string;
  readonly return: WireValue;
  readonly success: boolean;
  /** Return code. Present only if the function failed or set a return code. */
  readonly retcode?: number;
}

/** Receipt for a call that was started in the background. */
export interface StartedCall {
  readonly jid: string;
  /** Prefix of the tags of the call's events: `<tag>/new`, `<tag>/ret`. */
  readonly tag: string;
}
