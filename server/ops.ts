/**
 * Functions that check a configuration and its machine, and report about them. The master need not
 * be running.
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
