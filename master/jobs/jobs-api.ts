import type { InProcessJobsApi, JobProgress } from '../api/index.ts';
import { runBatch } from './batch.ts';
import { idleTimeoutMs, listJobs, showJob } from './history.ts';
import type { Job } from './job.ts';
import type { JobCache } from './job-cache.ts';
import { type ResumeDeps, resumeJob } from './resume-job.ts';
import { createRun, type RunDeps } from './run-job.ts';
import type { TargetResolver } from './targets.ts';

interface JobsApiDeps extends RunDeps, Pick<ResumeDeps, 'now' | 'startedAt'> {
  readonly cache: JobCache;
  readonly targets: TargetResolver;
}

export function createJobsApi(parts: JobsApiDeps): InProcessJobsApi {
  const { cache, dispatcher, targets, config } = parts;
  const run = createRun(parts);
  return {
    publish: async (request) => {
      const { record, delivery, problem } = await dispatcher.publish(request);
      const { jid, minions, missing, isNarrowed } = record;
      const broken = problem === undefined ? {} : { problem };
      const narrowed = isNarrowed === true ? { isNarrowed } : {};
      return { jid, minions, missing, skipped: delivery.skipped, ...narrowed, ...broken };
    },
    run,
    batch: async function* (request, signal) {
      const jid = request.jid ?? (await dispatcher.freshJid());
      yield* runBatch(run, { ...request, jid }, signal);
    },
    follow: (jid, signal, by) =>
      resumeJob(parts, jid, { signal, ...(by === undefined ? {} : { by }) }),
    list: (request) => listJobs(parts, request),
    active: async () => cache.underWay(idleTimeoutMs(config)).map(progressOf),
    plan: (request) => targets.plan(request),
    show: (jid) => showJob(parts, jid),
  };
}

function progressOf({ jid, fun, minions, answered, publishedAt }: Job): JobProgress {
  return { jid, fun, minions: minions.size, answered, publishedAt };
}
