/**
 * What minions were permitted by a rule, or they and users were refused, for the audit log: the first of a kind at
 * once, its repetitions as one record a minute. However many come, the log grows by so much.
 */
import type { Decision } from '../../acl/index.ts';
import { TokenBuckets } from '../limits/token-bucket.ts';
import type { AuditActor, AuditEntry, AuditTrail } from './record.ts';

/** What {@link RuledDecisions} needs. */
export interface RuledDecisionsOptions {
  readonly audit: AuditTrail;
  readonly now: () => number;
}

/** What somebody asked for. */
export interface Asked {
  readonly who: AuditActor;
  readonly action: string;
  /** Tag, function, path or operation. */
  readonly what: string;
}

interface Burst {
  readonly entry: AuditEntry;
  count: number;
}

const burstMs = 60_000;
/** Kinds (who, what, rule) that are told apart in a minute. */
const maxKinds = 200;
/** New kinds of one asker, and of all together. */
const ofOne = { perSecond: 0.1, burst: 20 };
const ofAll = { perSecond: 1, burst: 200 };

/** Counts decisions by who asked, what, and rule. */
export class RuledDecisions {
  readonly #options: RuledDecisionsOptions;
  readonly #perAsker: TokenBuckets;
  readonly #all: TokenBuckets;
  readonly #bursts = new Map<string, Burst>();
  /** Those that were not told apart, by outcome. */
  readonly #others = new Map<AuditEntry['outcome'], number>();
  #begunAt: number;

  constructor(options: RuledDecisionsOptions) {
    this.#options = options;
    this.#perAsker = new TokenBuckets(ofOne, options.now);
    this.#all = new TokenBuckets(ofAll, options.now);
    this.#begunAt = options.now();
  }

  note({ who, action, what }: Asked, { effect, rule }: Pick<Decision, 'effect' | 'rule'>): void {
    if (this.#options.now() - this.#begunAt >= burstMs) this.flush();
    const outcome = effect === 'allow' ? 'permitted' : 'denied';
    const asker = `${who.kind} ${who.eauth ?? ''} ${who.name}`;
    const key = JSON.stringify([outcome, action, asker, rule, what]);
    const known = this.#bursts.get(key);
    if (known !== undefined) {
      known.count += 1;
    } else if (this.#isTold(asker)) {
      const entry: AuditEntry = { who, action, what, rule, outcome };
      this.#bursts.set(key, { entry, count: 0 });
      this.#options.audit.append(entry);
    } else {
      this.#others.set(outcome, (this.#others.get(outcome) ?? 0) + 1);
    }
  }

  /** Tells how often each was repeated, and begins anew. */
  flush(): void {
    const { audit, now } = this.#options;
    this.#begunAt = now();
    for (const { entry, count } of this.#bursts.values()) {
      if (count > 0) audit.append({ ...entry, count });
    }
    this.#bursts.clear();
    const who = { kind: 'master', name: '' } as const;
    const detail = 'too many to be told apart';
    for (const [outcome, count] of this.#others) {
      audit.append({ who, action: 'decisions', outcome, count, detail });
    }
    this.#others.clear();
  }

  #isTold(asker: string): boolean {
    return this.#bursts.size < maxKinds && this.#perAsker.tryTake(asker) && this.#all.tryTake('');
  }
}
