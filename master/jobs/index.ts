export {
  checkArguments,
  type JobDispatcher,
  joinKeywords,
  separateKeywords,
} from './dispatcher.ts';
export { type RunDeps, runJob } from './follow-job.ts';
export { isFailureCode, type JobCache, type JobRecord, returnerOf } from './job-cache.ts';
export { createJobs, type Jobs } from './jobs.ts';
export { type FactsOfMinion, KnownFacts, readBounded, type SaltDataCache } from './minion-facts.ts';
export { Announcements } from './presence.ts';
export { ReturnKeeper } from './returns.ts';
export { type BoundFunction, callOf } from './rule-call.ts';
export {
  everyone,
  type KnownResources,
  SlowPatternRunner,
  SlowPatterns,
  type TargetReach,
  type TargetResolver,
} from './targets.ts';
