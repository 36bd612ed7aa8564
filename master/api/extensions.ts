import type { TSchema } from 'typebox';
import type { Subject } from '#acl';
import type { WireValue } from '#minion-protocol';
import type { AuditRequester, MethodAudit } from './audit.ts';
import type { TargetRequest } from './jobs.ts';
import type { MasterApi } from './master-api.ts';
import type { ReactionOutcome } from './reactions.ts';

/** Named commands that reactions can call. */
export interface NamedCommands {
  /**
   * Calls a command and waits for its end, if rules permit the caller. Failures are reported as an
   * outcome.
   * @param deadline ends the wait, but not the command
   */
  run(call: NamedCall, deadline: AbortSignal): Promise<ReactionResult>;
}

/** Call of a named command by a reaction. */
interface NamedCall {
  /** Jid of its first job. A call with the same jid is a repetition of the same call. */
  readonly jid: string;
  /** The reaction, as rules name it. */
  readonly caller: Subject;
  readonly command: string;
  readonly target: TargetRequest;
  readonly params: Readonly<Record<string, WireValue>>;
}

/** Call of a runner by a minion (`publish.runner`), with the arguments as they were sent. */
interface MinionRunnerCall {
  /** Verified id of the minion. */
  readonly minion: string;
  /** Protocol version of the request. Below version 3, all minions can decrypt the response. */
  readonly protocol: number;
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/**
 * Runners of an extension that only minions can call, by name (`module.function`). The policy has
 * permitted the call (action `runner`). These calls produce no events and are not stored as jobs.
 */
export type MinionRunners = Readonly<
  Record<string, (call: MinionRunnerCall) => Promise<WireValue>>
>;

/**
 * Callers that may use a method over the network. The local socket requires no access level.
 * `anybody`: the parameters are a proof in themselves. `user`: holders of a token, within the
 * limits of the policy. `everything`: users with full rights. `host`: no remote callers, because
 * the method concerns files of the master's host.
 */
export type RpcAccess = 'anybody' | 'user' | 'everything' | 'host';

/** Type of a method's first argument with all its optional parts required. */
export type WholeRequest<A extends readonly unknown[]> = A extends readonly [
  first?: infer P,
  ...rest: infer _,
]
  ? Required<P>
  : unknown;

/**
 * Entry of the method table. `A` are the parameters of the interface's method. `R` is its result: a
 * promise of a value, or a stream. `W` is {@link WholeRequest} of `A`. It is a separate type
 * parameter because the compiler compares type parameters: `A` alone would also accept a row that
 * omits an optional part of a request.
 */
export interface RpcMethod<A extends readonly unknown[] = never, R = unknown, W = unknown> {
  /** Schema of the parameters. */
  readonly parameters: TSchema;
  readonly access: RpcAccess;
  readonly isStream: boolean;
  /**
   * Whether the call can be repeated if its outcome is unknown: it only reads, or has the same
   * effect again. Default: false.
   */
  readonly isIdempotent?: boolean;
  /**
   * Whether the stream has started when the call resolves, and does not wait for slow readers. A
   * reader with too many pending items is disconnected. Default: false.
   */
  readonly isLive?: boolean;
  /** Audit record of the method. Absent for methods that only read. */
  readonly audit?: MethodAudit;
  /** Number of arguments of the interface's method, including optional ones. */
  readonly arity: number;
  /** Converts the arguments of the interface's method to parameters. */
  readonly toParameters: (...args: A) => object;
  /** Returns a description of the first invalid parameter, or `undefined` if all are valid. */
  readonly complaint: (parameters: unknown) => string | undefined;
  /** @internal */
  readonly invoke: (
    api: MasterApi,
    parameters: unknown,
    signal: AbortSignal,
    by?: AuditRequester,
  ) => R | Promise<R>;
  /**
   * Marker for the type checker, never set. It rejects rows that do not accept the complete
   * request.
   */
  readonly takes?: W;
}

/** Methods by name, and nested groups of methods. */
export interface RpcTable {
  readonly [name: string]: RpcMethod | RpcTable;
}

/** Returns whether an entry of a table is a method. */
export function isRpcMethod(entry: RpcMethod | RpcTable): entry is RpcMethod {
  return typeof entry.invoke === 'function';
}

/** Table with one row for each method of an interface. */
export type RpcTableOf<T> = {
  readonly [K in keyof T]: T[K] extends (...args: infer A) => infer R
    ? RpcMethod<A, R, WholeRequest<A>>
    : RpcTableOf<T[K]>;
};

/** Outcome of a run, with a reason. */
export interface ReactionResult {
  readonly outcome: ReactionOutcome;
  /** Explanation in English, for operators. */
  readonly reason?: string;
}
