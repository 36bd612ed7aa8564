/** What the audit log holds: who did what, on whom, by which rule, and what became of it. */

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

/** What became of it. */
export type AuditOutcome = 'done' | 'failed' | 'permitted' | 'denied' | 'expired';

/** What somebody hands to the log. Nothing of it is a secret: arguments come as a digest. */
export interface AuditEntry {
  readonly who: AuditActor;
  /** `job.publish`, `runner.run`, `wheel.run`, `key.accept`, `signal`, `policy.reload`, `login`, … */
  readonly action: string;
  /** Function, tag, option or pattern. */
  readonly what?: string;
  /** See {@link AuditTrail.digest}. */
  readonly arguments?: string;
  /** Whom it was for, as it was asked: type and expression of a target. */
  readonly target?: string;
  /** Whom that meant, at most {@link maxNamed} of them. */
  readonly on?: readonly string[];
  /** How many that were, where there are more. */
  readonly onCount?: number;
  /** Name of the rule that decided. */
  readonly rule?: string;
  readonly outcome: AuditOutcome;
  readonly jid?: string;
  /** How often since the record before it that says the same. */
  readonly count?: number;
  /** One sentence for a person. */
  readonly detail?: string;
}

/** A line of the log. */
export interface AuditRecord extends AuditEntry {
  /** 1, 2, 3 …; a number that is missing is a record that is missing. */
  readonly sequence: number;
  /** ISO 8601, of the master's clock. */
  readonly time: string;
  /** `hash` of the record before; zeros before the first one. */
  readonly previous: string;
  /** SHA-256 of the line without this field, in hex. */
  readonly hash: string;
}

/** Takes what is to be audited. */
export interface AuditTrail {
  /** Never throws and never waits; see `docs/audit.md` for when a record is durable. */
  append(entry: AuditEntry): void;
  /**
   * A digest of arguments under a key of this master's, so that two calls can be compared and
   * short secrets cannot be guessed by whoever reads the log. Long ones are worked through in steps.
   */
  digest(value: unknown): Promise<string>;
}

/** Ids that one record names. */
const maxNamed = 100;
const maxText = 512;

/** Whom something was for, within bounds. */
export function named(ids: readonly string[]): Pick<AuditEntry, 'on' | 'onCount'> {
  if (ids.length <= maxNamed) return { on: ids };
  return { on: ids.slice(0, maxNamed), onCount: ids.length };
}

/** The entry with every text within bounds, and its fields in the order of the log. */
export function bounded(entry: AuditEntry): AuditEntry {
  const { who, action, what, target, on, onCount, rule, outcome, jid, count, detail } = entry;
  const { eauth } = who;
  return {
    who: {
      kind: who.kind,
      name: clip(who.name),
      ...(eauth === undefined ? {} : { eauth: clip(eauth) }),
    },
    action,
    ...(what === undefined ? {} : { what: clip(what) }),
    ...(entry.arguments === undefined ? {} : { arguments: entry.arguments }),
    ...(target === undefined ? {} : { target: clip(target) }),
    ...(on === undefined ? {} : { on: on.slice(0, maxNamed).map(clip) }),
    ...(onCount === undefined ? {} : { onCount }),
    ...(rule === undefined ? {} : { rule: clip(rule) }),
    outcome,
    ...(jid === undefined ? {} : { jid: clip(jid) }),
    ...(count === undefined ? {} : { count }),
    ...(detail === undefined ? {} : { detail: clip(detail) }),
  };
}

function clip(text: string): string {
  return text.length <= maxText ? text : `${text.slice(0, maxText)}… (${text.length} characters)`;
}

/** Where nothing is audited. */
export const noAudit: AuditTrail = { append: () => {}, digest: async () => '' };
