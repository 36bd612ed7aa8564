/** Who asked for something, and the rule by which they may. */
export interface AuditRequester {
  readonly who: AuditActor;
  /** Name of the rule. */
  readonly rule: string;
}

/** A call in the process of the master, which may be somebody else's. */
export interface Requested {
  /** Who asked, and what permitted it, for the audit log. Default: the local interface. */
  readonly by?: AuditRequester;
}

/** The same methods, in rooms as before, with who asked as their last argument: see {@link Requested.by}. */
export type WithRequester<T> = {
  readonly [K in keyof T]: T[K] extends (...args: infer A) => infer R
    ? (...args: [...A, by?: AuditRequester]) => R
    : WithRequester<T[K]>;
};

/** What a record says of a call, beside who asked for it and what came of it. */
export interface AuditDetails {
  readonly what?: string;
  readonly on?: readonly string[];
  readonly onCount?: number;
  readonly detail?: string;
}

/**
 * The record of a method that changes something. `P` is its parameters, `R` its result. A method
 * that only reads has none.
 */
export type MethodAudit<P = unknown, R = unknown> =
  | AuditedInside
  | AuditedDecision<P>
  | AuditedOutcome<P, R>;

/** The record is written where more is known of the call than its parameters and result. */
interface AuditedInside {
  readonly action: string;
  /** The module that writes it. */
  readonly writtenBy: string;
}

/** Recorded before the call, as permitted; repetitions are counted instead of written. */
interface AuditedDecision<P> {
  readonly action: string;
  /** @returns `what` of the record */
  permitted(parameters: P): string;
}

/** Recorded after the call. */
interface AuditedOutcome<P, R> {
  readonly action: string;
  done(parameters: P, result: R): AuditDetails;
  /** Default: a call that fails is not recorded. */
  failed?(parameters: P): AuditDetails;
}

/** The log as it was when it was last synchronised. */
export interface StoredHead extends AuditHead {
  /** Sequence of the first record that is kept: what was before it has been rotated away. */
  readonly first: number;
}

/** Who did it, as far as the master can know. */
export interface AuditActor {
  /**
   * `minion`: its key opened the request. `local`: whoever may use the local socket, or the program
   * that the master runs in; `name` is what they call themselves. `project`: a user of Keystone's who
   * acts for one. `master`: the master by itself.
   */
  readonly kind: 'minion' | 'local' | 'user' | 'project' | 'service' | 'token' | 'master';
  /** Id of the minion or token, or name; never a token itself. */
  readonly name: string;
  /** What authenticated a user. */
  readonly eauth?: string;
}

// The hash chain: each line holds the hash of the line before and its own, over its exact bytes, so
// that a check rewrites nothing.

/** The last record of a log. */
export interface AuditHead {
  readonly sequence: number;
  readonly hash: string;
}
