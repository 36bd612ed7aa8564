export { type RunDeps, runJob } from './batch.ts';
export type { JobDispatcher } from './dispatcher.ts';
export type { MinionFacts } from './follow-job.ts';
export { freshJid, isFailureCode, type JobRecord, returnerOf } from './job.ts';
export { checkArguments, joinKeywords, separateKeywords } from './job-arguments.ts';
export type { JobCache } from './job-cache.ts';
export { createJobsApi, type JobsApiDeps, openJobs } from './jobs.ts';
export {
  type FactsOfMinion,
  KnownFacts,
  readBounded,
  type SaltDataCache,
  takeOverFacts,
} from './minion-facts.ts';
export { Announcements, needingOwnRestart, PresenceEvents, presentMinions } from './presence.ts';
export { KnownResources } from './resources.ts';
export { ReturnKeeper } from './returns.ts';
export { SlowPatternRunner, SlowPatterns } from './slow-patterns.ts';
export { everyone, type TargetReach, type TargetResolver } from './targets.ts';
