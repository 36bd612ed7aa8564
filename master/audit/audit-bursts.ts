import type { Decision } from '#acl';
import { type Limit, TokenBuckets } from '#runtime';
import type { AuditEntry, AuditTrail } from './audit-record.ts';
import { auditLimits } from './limits.ts';

export interface AuditBurstsOptions {
  readonly audit: AuditTrail;
  readonly now: () => number;
  /**
   * Limits on the number of distinct entries: `ofSource` for each source, `all` for all sources
   * together. Default: the limits on policy decisions.
   */
  readonly limits?: { readonly ofSource: Limit; readonly all: Limit };
}

interface Burst {
  /** Latest of the repeated entries. */
  entry: AuditEntry;
  count: number;
}

const burstMs = 60_000;
const decisionLimits = {
  ofSource: auditLimits.repeatedRecords,
  all: auditLimits.allRepeatedRecords,
};

/**
 * Limits repeated entries in the audit log. Appends the first occurrence of an entry within a
 * minute, and only counts the repetitions.
 */
export class AuditBursts {
  readonly #options: AuditBurstsOptions;
  readonly #perSource: TokenBuckets;
  readonly #all: TokenBuckets;
  /** Maximum number of distinct entries that are recorded per minute. */
  readonly #maxKinds: number;
  readonly #bursts = new Map<string, Burst>();
  /** Number of entries that exceeded the limits, by outcome. */
  readonly #others = new Map<AuditEntry['outcome'], number>();
  #begunAt: number;

  constructor(options: AuditBurstsOptions) {
    const { limits = decisionLimits, now } = options;
    this.#options = options;
    this.#perSource = new TokenBuckets(limits.ofSource, now);
    this.#all = new TokenBuckets(limits.all, now);
    this.#maxKinds = limits.all.rate?.burst ?? 0;
    this.#begunAt = options.now();
  }

  /**
   * Records an entry.
   * @param source - origin of the entry. Each source has its own limit, so that one source cannot
   * suppress the entries of others
   * @param key - identifier of the entry. Entries with the same identifier are counted together.
   * Default: the entry as text
   * @returns `true` if the entry was appended, `false` if it was only counted
   */
  note(entry: AuditEntry, source: string, key = JSON.stringify(entry)): boolean {
    this.flushIfDue();
    const known = this.#bursts.get(key);
    if (known !== undefined) {
      known.count += 1;
      known.entry = entry;
      return false;
    }
    if (!this.#mayRecord(source)) {
      this.#others.set(entry.outcome, (this.#others.get(entry.outcome) ?? 0) + 1);
      return false;
    }
    this.#bursts.set(key, { entry, count: 0 });
    this.#options.audit.append(entry);
    return true;
  }

  /**
   * Records the decision of a rule. Decisions with the same requester, request and rule are counted
   * as repetitions.
   */
  noteDecision(
    { who, action, what }: Pick<AuditEntry, 'who' | 'action' | 'what'>,
    { effect, rule }: Pick<Decision, 'effect' | 'rule'>,
  ): void {
    const outcome = effect === 'allow' ? 'permitted' : 'denied';
    this.noteOfActor({ who, action, ...(what === undefined ? {} : { what }), rule, outcome });
  }

  /**
   * Records an entry. The limit on new entries applies to each actor, identified by kind, log-in
   * backend and name.
   */
  noteOfActor(entry: AuditEntry): void {
    const { kind, eauth = '', name } = entry.who;
    this.note(entry, `${kind} ${eauth} ${name}`);
  }

  /** Calls {@link flush} if the current minute is over. */
  flushIfDue(): void {
    if (this.#options.now() - this.#begunAt >= burstMs) this.flush();
  }

  /**
   * Appends a record for each repeated entry, with the number of its repetitions. Then begins to
   * count for a new minute.
   */
  flush(): void {
    const { audit, now } = this.#options;
    this.#begunAt = now();
    for (const { entry, count } of this.#bursts.values()) {
      if (count > 0) audit.append({ ...entry, count });
    }
    this.#bursts.clear();
    const who = { kind: 'master', name: '' } as const;
    const detail = 'too many different decisions: these were counted instead of recorded';
    for (const [outcome, count] of this.#others) {
      audit.append({ who, action: 'decisions', outcome, count, detail });
    }
    this.#others.clear();
  }

  #mayRecord(source: string): boolean {
    return (
      this.#bursts.size < this.#maxKinds && this.#perSource.tryTake(source) && this.#all.tryTake('')
    );
  }
}
