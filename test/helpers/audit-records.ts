import { type AuditFilter, type AuditRecord, readAuditLog } from '#master';
import { directories, type VectorMaster } from './vector-master.ts';

/** Returns the records in the audit log of a test's master. */
export async function auditRecords(
  { master, directory }: Pick<VectorMaster, 'directory' | 'master'>,
  filter?: AuditFilter,
): Promise<AuditRecord[]> {
  await master.audit.flush();
  const { stateDir = '' } = directories(directory);
  const records: AuditRecord[] = [];
  for await (const record of readAuditLog({ stateDir }, filter)) records.push(record);
  return records;
}
