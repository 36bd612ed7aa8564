/** What minions were permitted by a rule, or they and users were refused, for the audit log. */
import type { Decision } from '../../acl/index.ts';
import { AuditBursts, type AuditBurstsOptions } from './bursts.ts';
import type { AuditActor } from './record.ts';

/** What somebody asked for. */
export interface Asked {
  readonly who: AuditActor;
  readonly action: string;
  /** Tag, function, path or operation. */
  readonly what: string;
}

/** Counts decisions by who asked, what, and rule. */
export class RuledDecisions {
  readonly #bursts: AuditBursts;

  constructor(options: AuditBurstsOptions) {
    this.#bursts = new AuditBursts(options);
  }

  note({ who, action, what }: Asked, { effect, rule }: Pick<Decision, 'effect' | 'rule'>): void {
    const outcome = effect === 'allow' ? 'permitted' : 'denied';
    const asker = `${who.kind} ${who.eauth ?? ''} ${who.name}`;
    this.#bursts.note({ who, action, what, rule, outcome }, asker);
  }

  /** Tells how often each was repeated, and begins anew. */
  flush(): void {
    this.#bursts.flush();
  }
}
