/** what looks at a configuration and its machine, with or without a master. */
export type {
  DiskRoom,
  DoctorFinding,
  DoctorReport,
  SystemInfo,
} from './diagnostics/report.ts';
export { type DoctorOptions, runDoctor } from './diagnostics/run-doctor.ts';
export {
  checkMigration,
  type MigrationFinding,
  type MigrationOutcome,
  type MigrationReport,
} from './migration/check-migration.ts';
export { policyText } from './migration/policy-text.ts';
