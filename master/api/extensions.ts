import type { TSchema } from 'typebox';
import type { Subject } from '#acl';
import type { WireValue } from '#minion-protocol';
import type { AuditRequester, MethodAudit } from './audit.ts';
import type { TargetRequest } from './jobs.ts';
import type { MasterApi } from './master-api.ts';
import type { ReactionOutcome } from './reactions.ts';

/** Named commands of the bridge, which reactions can call. */
export interface NamedCommands {
  /**
   * Calls a command and waits until it has ended. The rules must permit the caller. If the command
   * fails, the promise still resolves, and the result reports the failure.
   * @param deadline - aborts the waiting, but not the command
   */
  run(call: NamedCall, deadline: AbortSignal): Promise<ReactionResult>;
}

/** Call of a named command by a reaction. */
interface NamedCall {
  /**
   * Jid of the command's first job. Another call with the same jid is treated as a repetition of
   * this call.
   */
  readonly jid: string;
  /** The reaction that calls the command, as a subject of rules. */
  readonly caller: Subject;
  readonly command: string;
  readonly target: TargetRequest;
  readonly params: Readonly<Record<string, WireValue>>;
}

/** Call of a runner by a minion (`publish.runner`). The arguments are as the minion sent them. */
interface MinionRunnerCall {
  /** Verified id of the minion. */
  readonly minion: string;
  /**
   * Protocol version of the request. In versions below 3, the response is encrypted with a key that
   * all minions share, so every minion can decrypt it.
   */
  readonly protocol: number;
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<Record<string, WireValue>>;
  /**
   * Throws if the policy no longer permits the call, or if the key of the minion is no longer
   * accepted. Runners that wait call it again after each wait.
   */
  readonly requirePermission: () => void;
}

/**
 * Runners of an extension, by name (`module.function`). Minions can call them, but users cannot.
 * Before each call, the policy must permit it (action `runner`). These calls produce no events and
 * are not stored as jobs.
 */
export type MinionRunners = Readonly<
  Record<string, (call: MinionRunnerCall) => Promise<WireValue>>
>;

/**
 * Access level of a method over the network. It does not apply to the local socket. `anybody`:
 * everyone, because the parameters themselves authorise the call. `user`: holders of a token,
 * within the limits of the policy. `everything`: users with full rights. `host`: no one over the
 * network, because the method uses files of the master's host.
 */
export type RpcAccess = 'anybody' | 'user' | 'everything' | 'host';

/** Type of a method's first argument, with all optional members made required. */
export type WholeRequest<A extends readonly unknown[]> = A extends readonly [
  first?: infer P,
  ...rest: infer _,
]
  ? Required<P>
  : unknown;

/**
 * Entry of the table of RPC methods. `A` is the list of argument types of the API method. `R` is
 * the type of its result: a promise of a value, or a stream. `W` is {@link WholeRequest} of `A`.
 * Because of `W`, the compiler rejects an entry whose parameters omit an optional member of the
 * request.
 */
export interface RpcMethod<A extends readonly unknown[] = never, R = unknown, W = unknown> {
  /** Schema of the parameters. */
  readonly parameters: TSchema;
  readonly access: RpcAccess;
  readonly isStream: boolean;
  /**
   * Whether a caller may repeat the call if its outcome is unknown. True for methods that only
   * read, and for methods whose repetition has no further effect. Default: false.
   */
  readonly isIdempotent?: boolean;
  /**
   * Whether the method returns a live stream. A live stream has already started when the call
   * resolves. It does not wait for slow readers, but disconnects a reader with too many pending
   * items. Default: false.
   */
  readonly isLive?: boolean;
  /** Definition of the method's audit record. Absent for methods that only read. */
  readonly audit?: MethodAudit;
  /** Number of arguments of the API method, including optional ones. */
  readonly arity: number;
  /** Converts the arguments of the API method to RPC parameters. */
  readonly toParameters: (...args: A) => object;
  /** Returns a description of the first invalid parameter, or `undefined` if all are valid. */
  readonly complaint: (parameters: unknown) => string | undefined;
  /**
   * Calls the API method with checked parameters.
   * @internal
   */
  readonly invoke: (
    api: MasterApi,
    parameters: unknown,
    signal: AbortSignal,
    by?: AuditRequester,
  ) => R | Promise<R>;
  /**
   * Never set. Used only by the compiler, to reject methods that do not accept the complete request
   * type `W`.
   */
  readonly takes?: W;
}

/** Table of methods by name. Groups of methods are nested tables. */
export interface RpcTable {
  readonly [name: string]: RpcMethod | RpcTable;
}

/** Whether an entry of a table is a method and not a group. */
export function isRpcMethod(entry: RpcMethod | RpcTable): entry is RpcMethod {
  return typeof entry.invoke === 'function';
}

/** Table of RPC methods with one entry for each method of the interface `T`. */
export type RpcTableOf<T> = {
  readonly [K in keyof T]: T[K] extends (...args: infer A) => infer R
    ? RpcMethod<A, R, WholeRequest<A>>
    : RpcTableOf<T[K]>;
};

/** Outcome of a reaction, with a reason. */
export interface ReactionResult {
  readonly outcome: ReactionOutcome;
  /** Explanation of the outcome in English, for operators. */
  readonly reason?: string;
}
