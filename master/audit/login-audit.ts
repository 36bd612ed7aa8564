import type { AuditActor, AuditRequester } from '../api/index.ts';
import type { AuditBursts } from './audit-bursts.ts';
import { auditOf } from './audit-files.ts';
import type { AuditTrail } from './audit-record.ts';

/** Attributes of a token in the audit log. The token itself is never recorded. */
interface AuditedToken {
  readonly id: string;
  readonly user: string;
  readonly eauth: string;
}

/** Writes audit records about log-ins, and about tokens that end before their expiry. */
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

  /**
   * Records a failed log-in. The name is omitted, because users sometimes type passwords there.
   * @param eauth - name of the backend, or `undefined` if the requested backend is not configured
   */
  failed(eauth: string | undefined, source: string): void {
    const who: AuditActor = { kind: 'user', name: '', ...(eauth === undefined ? {} : { eauth }) };
    this.#ruled.noteDecision(
      { who, action: 'login', what: source },
      { effect: 'deny', rule: 'credentials' },
    );
  }

  /**
   * Records tokens that an operator revoked.
   * @param by - requester of the revocation. Default: the local interface
   */
  revoked(tokens: readonly AuditedToken[], by?: AuditRequester): void {
    for (const { id, user, eauth } of tokens) {
      const detail = `user ${user}, eauth ${eauth}`;
      const entry = { action: 'token.revoke', what: id, outcome: 'done', detail } as const;
      this.#audit.append({ ...auditOf(by, ''), ...entry });
    }
  }

  /**
   * Records tokens that ended because of a log-out or a revocation, or because their user may no
   * longer log in.
   */
  ended(tokens: readonly AuditedToken[]): void {
    for (const { id, user, eauth } of tokens) {
      const who = { kind: 'user', name: user, eauth } as const;
      this.#audit.append({ who, action: 'token.end', what: id, outcome: 'done' });
    }
  }
}
