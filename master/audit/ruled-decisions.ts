/**
 * What minions were permitted by a rule, or refused, for the audit log: the first of a kind at
 * once, its repetitions as one record a minute. However many come, the log grows by so much.
 */
import type { Decision } from '../../acl/index.ts';
import { TokenBuckets } from '../limits/token-bucket.ts';
import type { AuditEntry, AuditTrail } from './record.ts';
import { minionActor } from './requester.ts';

/** What {@link RuledDecisions} needs. */
export interface RuledDecisionsOptions {
  readonly audit: AuditTrail;
  readonly now: () => number;
}

/** What a minion asked for. */
export interface AskedByMinion {
  readonly minion: string;
  readonly action: string;
  /** Tag, function, path or operation. */
  readonly what: string;
}

interface Burst {
  readonly entry: AuditEntry;
  count: number;
}

const burstMs = 60_000;
/** Kinds (minion, what, rule) that are told apart in a minute. */
const maxKinds = 200;
/** New kinds of one minion, and of all together. */
const ofMinion = { perSecond: 0.1, burst: 20 };
const ofAll = { perSecond: 1, burst: 200 };

/** Counts decisions by minion, what was asked, and rule. */
export class RuledDecisions {
  readonly #options: RuledDecisionsOptions;
  readonly #perMinion: TokenBuckets;
  readonly #all: TokenBuckets;
  readonly #bursts = new Map<string, Burst>();
  /** Those that were not told apart, by outcome. */
  readonly #others = new Map<AuditEntry['outcome'], number>();
  #begunAt: number;

  constructor(options: RuledDecisionsOptions) {
    this.#options = options;
    this.#perMinion = new TokenBuckets(ofMinion, options.now);
    this.#all = new TokenBuckets(ofAll, options.now);
    this.#begunAt = options.now();
  }

  note({ minion, action, what }: AskedByMinion, { effect, rule }: Decision): void {
    if (this.#options.now() - this.#begunAt >= burstMs) this.flush();
    const outcome = effect === 'allow' ? 'permitted' : 'denied';
    // No id has a line feed in it, and what was asked for comes last.
    const key = `${outcome} ${action} ${minion}\n${rule}\n${what}`;
    const known = this.#bursts.get(key);
    if (known !== undefined) {
      known.count += 1;
    } else if (this.#isTold(minion)) {
      const entry: AuditEntry = { who: minionActor(minion), action, what, rule, outcome };
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
    const detail = 'asked for by minions, too many to be told apart';
    for (const [outcome, count] of this.#others) {
      audit.append({ who, action: 'decisions', outcome, count, detail });
    }
    this.#others.clear();
  }

  #isTold(minion: string): boolean {
    return this.#bursts.size < maxKinds && this.#perMinion.tryTake(minion) && this.#all.tryTake('');
  }
}
