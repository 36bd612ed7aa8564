import type { WireMap, WireValue } from '#minion-protocol';
import type { AuditRequester, RequesterJobs } from '../api/index.ts';

/** Call of a function, with the arguments as the caller sent them. */
export interface AskedCall {
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** Information about a call and callbacks for the function that serves it. */
export interface CallContext {
  readonly asked: AskedCall;
  readonly jid: string;
  /** Name of the operator, or id of the minion, that made the call. */
  readonly user: string;
  /**
   * Requester and the rule that permitted the call, for the audit log. `undefined` for calls over
   * the local interface.
   */
  readonly by: AuditRequester | undefined;
  /** Interface for jobs whose function the requester chooses. It checks the requester's rights. */
  readonly requesterJobs?: RequesterJobs | undefined;
  /**
   * Time that minions have to respond, in seconds. With `undefined`, the master's default applies.
   */
  readonly timeoutSeconds: number | undefined;
  /** Emits an event `<prefix>/<jid>/<suffix>`, for example to report progress. */
  readonly emit: (suffix: string, data: WireMap) => void;
  /** Aborted when the master closes. */
  readonly closing: AbortSignal;
  /**
   * The function calls this if another member of the cluster continues the call. The caller still
   * receives the return value, but the value is neither stored nor reported in events.
   */
  readonly continueElsewhere: () => void;
  /** Registers an action that runs after the end of the call was reported and stored. */
  readonly atEnd: (work: () => Promise<void>) => void;
}

/** A runner or a wheel function. */
export interface MasterFunction {
  readonly summary: string;
  /** Signature for the documentation, for example `jid, returned=True`. */
  readonly signature: string;
  /** Whether the function accepts a keyword argument of this name. */
  readonly takes: (name: string) => boolean;
  /**
   * Whether the function declares a parameter of this name. A function that accepts arbitrary
   * keyword arguments does not declare them.
   */
  readonly declares: (name: string) => boolean;
  /**
   * Whether only the caller may see arguments and result. They are then omitted from events, stored
   * jobs and audit records.
   */
  readonly isConfidential: boolean;
  /** Whether a return value means success. */
  readonly succeeds: (value: WireValue) => boolean;
  /**
   * Checks the arguments and returns a call that is ready to run.
   * @throws MasterError ERR_ARGS
   */
  readonly bind: (arg: readonly WireValue[], kwarg: Readonly<WireMap>) => BoundCall;
}

/** Function with its checked arguments. Calling it runs the function. */
export type BoundCall = (context: CallContext) => Promise<WireValue>;
