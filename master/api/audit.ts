/** Requester of a call and the rule that permits it, for the audit log. */
export interface AuditRequester {
  readonly who: AuditActor;
  /** Name of the rule. */
  readonly rule: string;
}

/** Origin of a call inside the master's process, which may be made on behalf of a user. */
export interface Requested {
  /** Requester and permitting rule, for the audit log. Default: the local interface. */
  readonly by?: AuditRequester;
}

/** The same methods with the requester as an optional last argument. See {@link Requested.by}. */
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
 * Audit record of a method that changes something. `P` is the type of its parameters, `R` of its
 * result. Methods that only read have none.
 */
export type MethodAudit<P = unknown, R = unknown> =
  | AuditedInside
  | AuditedDecision<P>
  | AuditedOutcome<P, R>;

/** Audit record that another module writes, because it needs more than parameters and result. */
interface AuditedInside {
  readonly action: string;
  /** Name of the module that writes the record. */
  readonly writtenBy: string;
}

/**
 * Audit record written before the call, as a permitted decision. Repetitions are counted instead of
 * written.
 */
interface AuditedDecision<P> {
  readonly action: string;
  /** @returns the `what` field of the record */
  permitted(parameters: P): string;
}

/** Audit record written after the call. */
interface AuditedOutcome<P, R> {
  readonly action: string;
  done(parameters: P, result: R): AuditDetails;
  /** Returns the details of a failed call. Default: failed calls are not recorded. */
  failed?(parameters: P): AuditDetails;
}

/** Last audit record that is synchronised to disk. */
export interface StoredHead extends AuditHead {
  /** Sequence number of the oldest record still stored. Earlier records have been rotated away. */
  readonly first: number;
}

/** Identity that performed an audited action. */
export interface AuditActor {
  /**
   * `minion`: authenticated by the key that decrypted the request. `local`: a client of the local
   * socket, or the program that runs the master; `name` is the name that it gives itself.
   * `project`: a Keystone user who acts for a project. `master`: the master itself.
   */
  readonly kind: 'minion' | 'local' | 'user' | 'project' | 'service' | 'token' | 'master';
  /** Minion id, token id or name. Never a token itself. */
  readonly name: string;
  /** Name of the `external_auth` backend that authenticated a user. */
  readonly eauth?: string;
}

// Hash chain: each line contains the hash of the previous line and its own hash. Both cover the
// exact bytes, so that verification does not re-serialise any record.

/** Sequence number and hash of the last record of an audit log. */
export interface AuditHead {
  readonly sequence: number;
  readonly hash: string;
}
