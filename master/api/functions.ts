import type { WireValue } from '#minion-protocol';

/** Which function to run on the master. */
export interface FunctionCall {
  /** `module.function` */
  readonly fun: string;
  readonly arg?: readonly WireValue[];
  readonly kwarg?: Readonly<Record<string, WireValue>>;
  /**
   * Told in the events. Default `saltbridge`. Over the local socket it is the account that calls, or
   * `sudo_<name>` if that is given.
   */
  readonly user?: string;
  /** Twenty digits, none that was used. Default: a new one. */
  readonly jid?: string;
  /** Leave out keywords that the function does not take. Default: such a call is refused. */
  readonly dropUnknown?: boolean;
  /** How long minions have to answer, where it asks minions and is not told itself. */
  readonly timeoutSeconds?: number;
}

/** What came of it; the fields are those of the event `…/ret`. */
export interface FunctionResult {
  readonly jid: string;
  /** With what it is before its name: `runner.jobs.list_jobs`. */
  readonly fun: string;
  readonly return: WireValue;
  readonly success: boolean;
  /** Only where it failed, or says so itself. */
  readonly retcode?: number;
}

/** A call that was started and that nobody waits for. */
export interface StartedCall {
  readonly jid: string;
  /** Its events begin with it: `<tag>/new`, `<tag>/ret`. */
  readonly tag: string;
}
