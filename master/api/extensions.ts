import type { TSchema } from 'typebox';
import type { Subject } from '#acl';
import type { WireValue } from '#minion-protocol';
import type { AuditRequester, MethodAudit } from './audit.ts';
import type { TargetRequest } from './jobs.ts';
import type { MasterApi } from './master-api.ts';
import type { ReactionOutcome } from './reactions.ts';

/** Named commands, which reactions may call. */
export interface NamedCommands {
  /**
   * Calls one, to its end, as far as rules permit it to the caller. What cannot be done is an
   * outcome.
   * @param deadline ends the wait, not the work
   */
  run(call: NamedCall, deadline: AbortSignal): Promise<ReactionResult>;
}

/** A named command that a reaction calls. */
interface NamedCall {
  /** Of its first job. The same again is the same call. */
  readonly jid: string;
  /** The reaction, as rules name it. */
  readonly caller: Subject;
  readonly command: string;
  readonly target: TargetRequest;
  readonly params: Readonly<Record<string, WireValue>>;
}

/** A runner that minions call (`publish.runner`), with arguments as they were sent. */
interface MinionRunnerCall {
  /** Id of the minion, verified. */
  readonly minion: string;
  /** Protocol version of the request: below 3, all minions can decrypt the answer. */
  readonly protocol: number;
  readonly arg: readonly WireValue[];
  readonly kwarg: Readonly<Record<string, WireValue>>;
}

/**
 * Runners of an extension for minions alone, by name (`module.function`). The policy (action
 * `runner`) has permitted the call. They are neither told on the event bus nor kept as jobs.
 */
export type MinionRunners = Readonly<
  Record<string, (call: MinionRunnerCall) => Promise<WireValue>>
>;

/**
 * Who may call a method over the network; the local socket asks nobody. `anybody`: what it takes is
 * a proof by itself. `user`: whoever has a token, by what the policy permits them. `everything`:
 * whoever may do everything. `host`: nobody; it is about files of the master's host.
 */
export type RpcAccess = 'anybody' | 'user' | 'everything' | 'host';

/** A method's first argument with all that may be in it. */
export type WholeRequest<A extends readonly unknown[]> = A extends readonly [
  first?: infer P,
  ...rest: infer _,
]
  ? Required<P>
  : unknown;

/**
 * A row of the method table. `A` is what the interface's method takes, `R` what it returns: a
 * promise of a value, or a stream. `W` is {@link WholeRequest} of `A`, for itself: the compiler
 * compares type parameters, and `A` alone would pass with an optional part of a request missing.
 */
export interface RpcMethod<A extends readonly unknown[] = never, R = unknown, W = unknown> {
  /** What it takes. */
  readonly parameters: TSchema;
  readonly access: RpcAccess;
  readonly isStream: boolean;
  /**
   * Whether the same call again does no harm where nobody knows if the first one was carried out:
   * it only reads, or comes to the same. Default false.
   */
  readonly isIdempotent?: boolean;
  /**
   * Its stream has begun when the call resolves, and waits for no reader: one for whom too much waits
   * is ended. Default false.
   */
  readonly isLive?: boolean;
  /** Its record in the audit log. Absent: it only reads. */
  readonly audit?: MethodAudit;
  /** How many arguments the interface's method takes, optional ones included. */
  readonly arity: number;
  /** Turns the interface's arguments into parameters. */
  readonly toParameters: (...args: A) => object;
  /** Says what is wrong with the parameters, or `undefined` if nothing is. */
  readonly complaint: (parameters: unknown) => string | undefined;
  /** @internal */
  readonly invoke: (
    api: MasterApi,
    parameters: unknown,
    signal: AbortSignal,
    by?: AuditRequester,
  ) => R | Promise<R>;
  /** Never set. A row that does not take the whole request is none of the interface's. */
  readonly takes?: W;
}

/** Methods by name, and rooms of methods. */
export interface RpcTable {
  readonly [name: string]: RpcMethod | RpcTable;
}

/** Whether an entry of a table is a row. */
export function isRpcMethod(entry: RpcMethod | RpcTable): entry is RpcMethod {
  return typeof entry.invoke === 'function';
}

/** The rows that an interface needs: one for each method. */
export type RpcTableOf<T> = {
  readonly [K in keyof T]: T[K] extends (...args: infer A) => infer R
    ? RpcMethod<A, R, WholeRequest<A>>
    : RpcTableOf<T[K]>;
};

/** What became of a run, and why. */
export interface ReactionResult {
  readonly outcome: ReactionOutcome;
  /** For a person. */
  readonly reason?: string;
}
