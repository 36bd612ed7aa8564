/** Records decisions of rules: permissions of minions, and refusals to minions and users. */

import type { Decision } from '#acl';
import type { AuditActor } from '../api/index.ts';
import { AuditBursts, type AuditBurstsOptions } from './audit-bursts.ts';

/** What somebody asked for. */
export interface RuledQuestion {
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

  note(
    { who, action, what }: RuledQuestion,
    { effect, rule }: Pick<Decision, 'effect' | 'rule'>,
  ): void {
    const outcome = effect === 'allow' ? 'permitted' : 'denied';
    const asker = `${who.kind} ${who.eauth ?? ''} ${who.name}`;
    this.#bursts.note({ who, action, what, rule, outcome }, asker);
  }

  /** Tells how often each was repeated, and begins anew. */
  flush(): void {
    this.#bursts.flush();
  }
}
