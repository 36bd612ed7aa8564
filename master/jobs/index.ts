export { type RunDeps, runJob } from './batch.ts';
export {
  checkArguments,
  type JobDispatcher,
  joinKeywords,
  separateKeywords,
} from './dispatcher.ts';
export { isFailureCode, type JobRecord, returnerOf } from './job.ts';
export type { JobCache } from './job-cache.ts';
export { createJobs, type Jobs } from './jobs.ts';
export {
  type FactsOfMinion,
  KnownFacts,
  readBounded,
  type SaltDataCache,
} from './minion-facts.ts';
export { Announcements } from './presence.ts';
export type { KnownResources } from './resources.ts';
export { ReturnKeeper } from './returns.ts';
export {
  everyone,
  SlowPatternRunner,
  SlowPatterns,
  type TargetReach,
  type TargetResolver,
} from './targets.ts';
