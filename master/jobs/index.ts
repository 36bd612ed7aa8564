export type { JobDispatcher, OtherMembers, ToldPublication } from './dispatcher.ts';
export { type RunDeps, runJob } from './follow-job.ts';
export { Job } from './job.ts';
export { checkArguments, joinKeywords, separateKeywords } from './job-arguments.ts';
export type { JobCache } from './job-cache.ts';
export { isFailureCode, returnerOf, returnRow } from './job-return.ts';
export type { JobRecord } from './job-row.ts';
export { createJobs, type Jobs } from './jobs.ts';
export type { JobsOfMembers, JobsOfMembersDeps } from './jobs-of-members.ts';
export { LocalPresence } from './local-presence.ts';
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
