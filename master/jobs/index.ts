export type { JobDispatcher } from './dispatcher.ts';
export { type RunDeps, runJob } from './follow-job.ts';
export { checkArguments, joinKeywords, separateKeywords } from './job-arguments.ts';
export type { JobCache } from './job-cache.ts';
export { isFailureCode, returnerOf } from './job-return.ts';
export type { JobRecord } from './job-row.ts';
export { createJobs, type Jobs } from './jobs.ts';
export {
  type FactsOfMinion,
  KnownFacts,
  readBounded,
  type SaltDataCache,
} from './minion-facts.ts';
export { Announcements } from './presence.ts';
export { ReturnKeeper } from './returns.ts';
export {
  everyone,
  type KnownResources,
  SlowPatternRunner,
  SlowPatterns,
  type TargetReach,
  type TargetResolver,
} from './targets.ts';
