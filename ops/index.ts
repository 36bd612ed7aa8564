/** `saltbridge/ops`: what looks at a configuration and its machine, with or without a master. */
export {
  type DiskRoom,
  type DoctorCode,
  type DoctorFinding,
  type DoctorOptions,
  type DoctorReport,
  runDoctor,
  type SystemInfo,
} from './diagnostics/run-doctor.ts';
export {
  checkMigration,
  type MigrationFinding,
  type MigrationOutcome,
  type MigrationReport,
} from './migration/check-migration.ts';
export { policyText } from './migration/policy-text.ts';
export type {
  PlannedReactionRule,
  ReactionPlan,
  UnderivableReaction,
} from './migration/reaction-plan.ts';
