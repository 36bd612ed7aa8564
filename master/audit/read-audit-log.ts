/** Reads and filters the records of a master's log, whether the master runs or not. */

import type { MasterConfig } from '#config';
import { auditDirectory, auditFiles, linesOf } from './audit-files.ts';
import { type AuditRecord, readLine } from './audit-record.ts';

/** Which records are wanted; what is named must all hold. */
export interface AuditFilter {
  /** Milliseconds since 1970: from then on. */
  readonly since?: number;
  /** Name of who did it. */
  readonly who?: string;
  /** An action, or what stands before its dot. */
  readonly action?: string;
  /** Id of a minion that it was for, or that did it. */
  readonly minion?: string;
  readonly jid?: string;
  readonly outcome?: string;
}

/**
 * The records of a master's log, oldest first. Lines that are not as they were written are passed
 * over: `verifyAuditLog` names them.
 */
export async function* readAuditLog(
  config: Pick<MasterConfig, 'stateDir'>,
  filter: AuditFilter = {},
): AsyncGenerator<AuditRecord, void, void> {
  for (const file of await auditFiles(auditDirectory(config))) {
    for await (const { text } of linesOf(file)) {
      const record = readLine(text);
      if (record !== undefined && isMeant(record, filter)) yield record;
    }
  }
}

function isMeant(record: AuditRecord, filter: AuditFilter): boolean {
  const { since, who, action, minion, jid, outcome } = filter;
  return (
    (since === undefined || Date.parse(record.time) >= since) &&
    (who === undefined || record.who.name === who) &&
    (action === undefined || `${record.action}.`.startsWith(`${action}.`)) &&
    (minion === undefined || isAbout(record, minion)) &&
    (jid === undefined || record.jid === jid) &&
    (outcome === undefined || record.outcome === outcome)
  );
}

function isAbout({ who, on = [] }: AuditRecord, id: string): boolean {
  return (who.kind === 'minion' && who.name === id) || on.includes(id);
}
