export { readBatchSize } from './batch.ts';
export { readBounded, type SaltDataCache } from './import-facts.ts';
export { requireInertArguments } from './interpreted-arguments.ts';
export { Job } from './job.ts';
export {
  checkArguments,
  joinKeywords,
  requireFewArguments,
  requireFewFunctions,
  requireFewKeywords,
  separateKeywords,
} from './job-arguments.ts';
export type { JobCache, ReturnRows } from './job-cache.ts';
export { isFailureCode, returnerOf, returnRow } from './job-return.ts';
export { createJobs, type Jobs } from './jobs.ts';
export type { JobsOfMembers } from './jobs-of-members.ts';
export type { KnownResources } from './known-resources.ts';
export { Announcements } from './presence.ts';
export { RequestMarks } from './request-marks.ts';
export type { FollowOptions } from './resume-job.ts';
export { ReturnProcessor, type ReturnRedaction } from './returns.ts';
export { type BoundFunction, callOf } from './rule-call.ts';
export { type RunDeps, runJob } from './run-job.ts';
export { SlowPatternRunner, SlowPatterns } from './slow-patterns.ts';
export { everyone, TargetResolver } from './targets.ts';
