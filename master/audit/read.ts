/** The audit log as commands read it, whether a master runs or not. */
import { readStore } from '../../store/index.ts';
import type { MasterConfig } from '../config/options.ts';
import { storeDirectory } from '../own-store.ts';
import { readLine } from './chain.ts';
import { auditDirectory, auditFiles, linesOf } from './files.ts';
import { readHead, type StoredHead } from './head.ts';
import type { AuditRecord } from './record.ts';
import { type AuditReport, type ExpectedLog, verifyAudit } from './verify.ts';

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
 * over: {@link verifyAuditLog} names them.
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

/**
 * Looks whether a master's log is as it was written.
 * @param expected - what the running master says of its end; `null`: it does not say; default:
 * what the store says
 * @throws StoreError ERR_STORE_LOCKED when a master runs, and nothing is expected
 */
export async function verifyAuditLog(
  config: Pick<MasterConfig, 'stateDir'>,
  expected?: ExpectedLog | null,
): Promise<AuditReport> {
  const known = expected === undefined ? await readStoredHead(config) : expected;
  return verifyAudit(await auditFiles(auditDirectory(config)), known ?? undefined);
}

async function readStoredHead(
  config: Pick<MasterConfig, 'stateDir'>,
): Promise<StoredHead | undefined> {
  return readStore(storeDirectory(config.stateDir), readHead);
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
