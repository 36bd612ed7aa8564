/** Records log-ins, and tokens that end before their time. */

import type { AuditActor, AuditRequester } from '../api/index.ts';
import type { AuditBursts } from './audit-bursts.ts';
import { auditOf } from './audit-files.ts';
import type { AuditTrail } from './audit-record.ts';

/** A token, as far as the log names it. */
interface AuditedToken {
  readonly id: string;
  readonly user: string;
  readonly eauth: string;
}

/** Tells of log-ins, and of tokens that end before their time. */
export class LoginAudit {
  readonly #audit: AuditTrail;
  readonly #ruled: AuditBursts;

  constructor(audit: AuditTrail, ruled: AuditBursts) {
    this.#audit = audit;
    this.#ruled = ruled;
  }

  loggedIn(token: AuditedToken, source: string): void {
    const { id, user, eauth } = token;
    const who = { kind: 'user', name: user, eauth } as const;
    this.#audit.append({
      who,
      action: 'login',
      what: source,
      outcome: 'done',
      detail: `token ${id}`,
    });
  }

  /** Without a name: people type their passwords there. @param eauth - if it is one that serves */
  failed(eauth: string | undefined, source: string): void {
    const who: AuditActor = { kind: 'user', name: '', ...(eauth === undefined ? {} : { eauth }) };
    this.#ruled.noteDecision(
      { who, action: 'login', what: source },
      { effect: 'deny', rule: 'credentials' },
    );
  }

  /** Ended by somebody who is not their user. @param by - default: the local interface */
  revoked(tokens: readonly AuditedToken[], by?: AuditRequester): void {
    for (const { id, user, eauth } of tokens) {
      const detail = `of ${user} by ${eauth}`;
      const entry = { action: 'token.revoke', what: id, outcome: 'done', detail } as const;
      this.#audit.append({ ...auditOf(by, ''), ...entry });
    }
  }

  /** Logged out, revoked, or of a user who may not log in any more. */
  ended(tokens: readonly AuditedToken[]): void {
    for (const { id, user, eauth } of tokens) {
      const who = { kind: 'user', name: user, eauth } as const;
      this.#audit.append({ who, action: 'token.end', what: id, outcome: 'done' });
    }
  }
}
