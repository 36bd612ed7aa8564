/**
 * `saltbridge/ops`: reports about a configuration and its master, and operations on the files of a
 * stopped master.
 *
 * @packageDocumentation
 */

export {
  type AuditFilter,
  type AuditRecord,
  type AuditReport,
  backupOfflineStore,
  type OfflineKeys,
  openOfflineKeys,
  readAuditLog,
  restoreMasterStore,
  verifyAuditLog,
} from '#master';
export type { AuditProblem } from '#master/audit/verify.ts';
export {
  checkMigration,
  type DiskRoom,
  type DoctorFinding,
  type DoctorOptions,
  type DoctorReport,
  type MigrationFinding,
  type MigrationReport,
  policyText as formatMigrationPolicy,
  runDoctor,
  type SystemInfo,
} from '#server/ops.ts';
