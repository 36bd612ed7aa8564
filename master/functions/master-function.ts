import type { WireMap, WireValue } from '#minion-protocol';
import type { AuditRequester, RequesterJobs, RequireWheel } from '../api/index.ts';

/** Name of the called function, and the arguments as the caller sent them. */
export interface AskedCall {
  readonly fun: string;
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/** Information and callbacks that a runner or wheel function receives for one call. */
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
  /**
   * Interface through which the function starts jobs that the requester has chosen. It checks the
   * requester's rights. With `undefined`, users and minions cannot start such jobs.
   */
  readonly requesterJobs?: RequesterJobs | undefined;
  /**
   * Checks the requester's right to a wheel function. With `undefined`, users and minions have no
   * such right.
   */
  readonly requireWheel?: RequireWheel | undefined;
  /**
   * Time that minions have to respond, in seconds. With `undefined`, the master's default applies.
   */
  readonly timeoutSeconds: number | undefined;
  /**
   * Emits an event with the tag `salt/run/<jid>/<suffix>`, for example to report progress. For
   * wheel functions, the tag begins with `salt/wheel`.
   */
  readonly emit: (suffix: string, data: WireMap) => void;
  /** Aborted when the master closes. */
  readonly closing: AbortSignal;
  /**
   * Reports that another member of the cluster continues the call. This master then neither stores
   * the function's return value nor emits it as an event. The caller still receives the value.
   */
  readonly continueElsewhere: () => void;
  /**
   * Registers an action that runs after the result of the call has been reported and stored. The
   * action does not run after {@link continueElsewhere}.
   */
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
   * Whether only the caller may see the arguments and the result. They are then omitted from
   * events, stored jobs and audit records.
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
