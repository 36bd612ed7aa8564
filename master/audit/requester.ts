import type { AuditActor } from './record.ts';

/** Who asked for something, and the rule by which they may. */
export interface AuditRequester {
  readonly who: AuditActor;
  /** Name of the rule. */
  readonly rule: string;
}

/** @param user - what somebody at the local interface calls themselves; nobody vouches for it */
export function auditOf(by: AuditRequester | undefined, user: string): AuditRequester {
  // protection: interface-by-nobody
  return by ?? { who: { kind: 'local', name: user }, rule: 'local-interface' };
}

/** A minion whose key opened the request. */
export function minionActor(id: string): AuditActor {
  return { kind: 'minion', name: id };
}
