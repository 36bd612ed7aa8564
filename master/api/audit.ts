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

/** The same methods, with who asked as their last argument: see {@link Requested.by}. */
export type WithRequester<T> = {
  readonly [K in keyof T]: T[K] extends (...args: infer A) => infer R
    ? (...args: [...A, by?: AuditRequester]) => R
    : T[K];
};

// The head of the log in the store: reveals a truncated log.

/** The log as it was when it was last synchronised. */
export interface StoredHead extends AuditHead {
  /** Sequence of the first record that is kept: what was before it has been rotated away. */
  readonly first: number;
}

// Actors.

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
