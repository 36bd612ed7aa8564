/**
 * Checks and reports on a configuration and its machine. They work with or without a running
 * master.
 */
export type {
  DiskRoom,
  DoctorFinding,
  DoctorReport,
  SystemInfo,
} from './diagnostics/report.ts';
export { type DoctorOptions, runDoctor } from './diagnostics/run-doctor.ts';
export { checkMigration, type MigrationReport } from './migration/check-migration.ts';
export type { MigrationFinding, MigrationOutcome } from './migration/finding.ts';
export { policyText } from './migration/policy-text.ts';
