import { userWork, WorkBudget } from '#runtime';

/** Requester of a call, and the rule that permitted it, for the audit log. */
export interface AuditRequester {
  readonly who: AuditActor;
  /** Name of the rule that permitted the call. */
  readonly rule: string;
}

/** Kinds of requesters that act for the operator. */
const operatorKinds: ReadonlySet<string> = new Set(['local', 'master', 'service']);

/**
 * Whether a call comes from the operator, from the master itself, or from a service such as a
 * reaction. These requesters have no limits of their own.
 * @param by - requester of the call; `undefined` for the local interface, which the operator uses
 */
export function isOfOperator(by: Pick<AuditRequester, 'who'> | undefined): boolean {
  return by === undefined || operatorKinds.has(by.who.kind);
}

/**
 * Returns a name that identifies a requester, for example `minion web1` or `user pam/alice`. Limits
 * are counted per name, and requesters take turns by name. Users of different eauth back ends are
 * different requesters.
 */
export function requesterName({ kind, name, eauth }: AuditActor): string {
  return eauth === undefined ? `${kind} ${name}` : `${kind} ${eauth}/${name}`;
}

/** Returns the name of a minion as a requester. See {@link requesterName}. */
export function minionOwner(id = ''): string {
  return requesterName({ kind: 'minion', name: id });
}

/**
 * Returns the name under which limits count a requester. Returns `undefined` for the operator (see
 * {@link isOfOperator}), which has no limits of its own.
 */
export function limitOwnerOf(by: Pick<AuditRequester, 'who'> | undefined): string | undefined {
  return by === undefined || isOfOperator(by) ? undefined : requesterName(by.who);
}

/**
 * Returns a new work budget for a call of a requester. If several users wait, slices of their work
 * alternate. A user with several calls gets no more slices than one with a single call.
 */
export function workBudgetOf(by: Pick<AuditRequester, 'who'> | undefined): WorkBudget {
  return new WorkBudget(userWork, limitOwnerOf(by));
}

/** Attributes of a call that is made inside the master's process, possibly on behalf of a user. */
export interface Requested {
  /**
   * Requester of the call, and the rule that permitted it, for the audit log. By default, the call
   * counts as a call over the local interface.
   */
  readonly by?: AuditRequester;
}

/**
 * The methods of `T` with an optional last argument, which names the requester. See
 * {@link Requested.by}.
 */
export type WithRequester<T> = {
  readonly [K in keyof T]: T[K] extends (...args: infer A) => infer R
    ? (...args: [...A, by?: AuditRequester]) => R
    : WithRequester<T[K]>;
};

/** Call-specific fields of an audit record. The requester and the outcome are added separately. */
export interface AuditDetails {
  readonly what?: string;
  readonly on?: readonly string[];
  readonly onCount?: number;
  readonly detail?: string;
}

/**
 * Definition of a method's audit record. `P` is the type of the method's parameters, and `R` the
 * type of its result. Methods that only read have no audit record.
 */
export type MethodAudit<P = unknown, R = unknown> =
  | AuditedInside
  | AuditedDecision<P>
  | AuditedOutcome<P, R>;

/**
 * Audit definition of a method whose own module writes the audit record. Such a record needs more
 * data than the parameters and the result of the call.
 */
interface AuditedInside {
  readonly action: string;
  /** Name of the module that writes the record. */
  readonly writtenBy: string;
}

/**
 * Definition of an audit record that is written before the call, with the outcome `permitted`. If
 * the same call is repeated within a minute, only the number of repetitions is recorded.
 */
interface AuditedDecision<P> {
  readonly action: string;
  /**
   * Returns the field `what` of the audit record: the name of the object that the permitted call
   * acts on.
   */
  permitted(parameters: P): string;
}

/** Definition of an audit record that is written after the call, with its outcome. */
interface AuditedOutcome<P, R> {
  readonly action: string;
  done(parameters: P, result: R): AuditDetails;
  /** Returns the details of a failed call. Default: failed calls are not recorded. */
  failed?(parameters: P): AuditDetails;
}

/**
 * Sequence number and hash of the last audit record on disk, and the sequence number of the oldest
 * one.
 */
export interface StoredHead extends AuditHead {
  /**
   * Sequence number of the oldest audit record that is still stored. Older records were removed by
   * rotation.
   */
  readonly first: number;
}

/** Identity that an audit record attributes an action to. */
export interface AuditActor {
  /**
   * Kind of the actor. `minion`: a minion, authenticated by the key that decrypted its request.
   * `local`: a client of the local socket, or the program that runs the master; such an actor
   * states its name itself. `user`: a user who logged in. `project`: a Keystone user who acts for a
   * project. `service`: a service that acts for itself. `token`: a token of a service. `master`:
   * the master itself.
   */
  readonly kind: 'minion' | 'local' | 'user' | 'project' | 'service' | 'token' | 'master';
  /** Minion id, token id or name. Never a token itself. */
  readonly name: string;
  /** Name of the `external_auth` backend that authenticated a user. */
  readonly eauth?: string;
}

// The audit log is a hash chain: each line contains its own hash and the hash of the previous line.
// The hashes cover the exact bytes of a line, so that verification need not serialise the records
// again.

/** Sequence number and hash of the last record of an audit log. */
export interface AuditHead {
  readonly sequence: number;
  readonly hash: string;
}
