/** The interface to jobs over their parts: see ../api.ts for what each call promises. */
import { randomInt } from 'node:crypto';
import type { JobProgress, JobsApi } from '../api.ts';
import type { TargetResolver } from '../targeting/resolve.ts';
import { runBatch } from './batch.ts';
import { listJobs, showJob } from './history.ts';
import type { Job } from './job.ts';
import type { JobCache } from './job-cache.ts';
import { type RunParts, runJob } from './run.ts';
import { runSubset } from './subset.ts';

/** What {@link createJobsApi} needs. */
export interface JobsApiParts extends RunParts {
  readonly cache: JobCache;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly targets: TargetResolver;
}

export function createJobsApi(parts: JobsApiParts): JobsApi {
  const { cache, dispatcher, targets, defaults } = parts;
  const history = {
    ...parts,
    get patienceMs() {
      return (defaults.timeout + defaults.gatherJobTimeout) * 1000;
    },
  };
  const run: JobsApi['run'] = (request, signal) =>
    request.subset === undefined
      ? runJob(parts, request, signal)
      : runSubset((one) => runJob(parts, one, signal), request, randomInt);
  return {
    publish: async (request) => {
      const { record, delivery, problem } = await dispatcher.publish(request);
      const { jid, minions, missing } = record;
      const broken = problem === undefined ? {} : { problem };
      return { jid, minions, missing, skipped: delivery.skipped, ...broken };
    },
    run,
    batch: async function* (request, signal) {
      const jid = request.jid ?? (await dispatcher.freshJid());
      yield* runBatch(run, { ...request, jid }, signal);
    },
    list: (request) => listJobs(history, request),
    underWay: async () => cache.underWay(history.patienceMs).map(progressOf),
    plan: (request) => targets.plan(request),
    show: (jid) => showJob(history, jid),
  };
}

function progressOf({ jid, fun, minions, answered, publishedAt }: Job): JobProgress {
  return { jid, fun, minions: minions.size, answered, publishedAt };
}
