import type { MasterConfig } from '#config';
import { auditDirectory, auditFiles, linesOf } from './audit-files.ts';
import { type AuditRecord, readLine } from './audit-record.ts';

/** Filter for audit records. A record must meet all conditions that are given. */
export interface AuditFilter {
  /** Earliest time of the records, in milliseconds since 1970. */
  readonly since?: number;
  /** Name of the actor. */
  readonly who?: string;
  /**
   * Name of the action, or its first parts. For example, `key` selects `key.accept` and
   * `key.reject`.
   */
  readonly action?: string;
  /** Id of a minion. Selects the actions of this minion, and the actions on this minion. */
  readonly minion?: string;
  readonly jid?: string;
  readonly outcome?: string;
}

/**
 * Reads the records of a master's audit log, oldest first. The master may be running. Altered lines
 * are skipped; use `verifyAuditLog` to detect them.
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
