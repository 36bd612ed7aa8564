/** Opens jobs from the parts of a master, and implements the interface `jobs`. */

import { randomInt } from 'node:crypto';
import { createJidSource, type MasterTransport } from '../../minion-protocol/index.ts';
import type { Store } from '../../store/index.ts';
import type { InProcessJobsApi, JobProgress } from '../api/index.ts';
import type { Audit } from '../audit/index.ts';
import type { Auth, LastHeard } from '../auth/index.ts';
import type { MasterConfig } from '../config/index.ts';
import type { EventBus } from '../events/index.ts';
import { type RunDeps, runBatch, runJob, runSubset } from './batch.ts';
import { JobDispatcher, Publisher } from './dispatcher.ts';
import { type MinionFacts, resumeJob } from './follow-job.ts';
import { listJobs, showJob } from './history.ts';
import type { Job } from './job.ts';
import { JobCache } from './job-cache.ts';
import type { KnownFacts } from './minion-facts.ts';
import { Reconnecting } from './presence.ts';
import type { KnownResources } from './resources.ts';
import { TargetResolver } from './targets.ts';

export interface JobDeps {
  readonly config: MasterConfig;
  readonly foundations: Pick<Auth, 'keys' | 'masterKeys' | 'publishKey' | 'rsa' | 'sessions'> & {
    readonly store: Store;
    readonly audit: Audit;
    readonly facts: KnownFacts;
    readonly resources: KnownResources;
  };
  readonly transports: readonly MasterTransport[];
  readonly bus: EventBus;
  readonly lastHeard: LastHeard;
  /** Ends what follows jobs. */
  readonly closing: AbortSignal;
  readonly now: () => number;
}

/** What the rest of a master needs of jobs. */
export interface Jobs {
  readonly jobs: JobCache;
  /** What is known of minions, for what became of jobs at each. */
  readonly facts: MinionFacts;
  readonly targets: TargetResolver;
  readonly dispatcher: JobDispatcher;
  readonly nextJid: () => string;
}

export function openJobs(parts: JobDeps): Jobs {
  const { config, foundations, transports, bus, lastHeard, closing, now } = parts;
  const nextJid = createJidSource(
    () => new Date(now()),
    config.uniqueJid ? String(process.pid) : undefined,
  );
  const jobs = new JobCache({
    store: foundations.store,
    isOn: config.jobCache,
    get keepMs() {
      return config.keepJobsSeconds * 1000;
    },
    keepMarksMs: config.publishSession * 1000,
    now,
  });
  const reconnecting = new Reconnecting({
    signedIn: foundations.sessions.ids,
    waitMs: config.reconnectWaitSeconds * 1000,
    lastHeard,
    now,
  });
  const facts: MinionFacts = {
    isAccepted: (id) => foundations.keys.isAccepted(id),
    lastHeardAt: (id) => lastHeard.of(id),
    isReconnecting: (id, publishedAt) => reconnecting.isReconnecting(id, publishedAt),
  };
  const publisher = createPublisher(foundations, transports, config);
  const targets = new TargetResolver({
    acceptedIds: () => foundations.keys.acceptedIds(),
    isAccepted: (id) => foundations.keys.get(id)?.state === 'accepted',
    factsOf: (id) => foundations.facts.of(id),
    rightsOf: (id) => foundations.facts.rightsOf(id),
    resourcesOf: (id) => foundations.resources.of(id),
    isDataCached: config.minionDataCache,
    get nodegroups() {
      return config.nodegroups;
    },
  });
  const dispatcher = new JobDispatcher({
    targets,
    cache: jobs,
    bus,
    publisher,
    reconnecting,
    audit: foundations.audit,
    nextJid,
    masterId: config.masterId,
    closing,
    now,
  });
  return { jobs, facts, targets, dispatcher, nextJid };
}

function createPublisher(
  { publishKey, rsa, masterKeys }: JobDeps['foundations'],
  transports: readonly MasterTransport[],
  config: MasterConfig,
): Publisher {
  const algorithm = config.publishSigningAlgorithm;
  const masterKey = masterKeys.privateKey;
  return new Publisher({
    publishKey,
    transports,
    signingAlgorithm: algorithm,
    sign: config.signPubMessages
      ? (bytes) => rsa.run({ kind: 'sign', masterKey, bytes, algorithm })
      : undefined,
  });
}

// The interface `jobs`.

export interface JobsApiDeps extends RunDeps {
  readonly cache: JobCache;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  readonly targets: TargetResolver;
}

export function createJobsApi(parts: JobsApiDeps): InProcessJobsApi {
  const { cache, dispatcher, targets, defaults } = parts;
  const history = {
    ...parts,
    get idleTimeoutMs() {
      return (defaults.timeout + defaults.gatherJobTimeout) * 1000;
    },
  };
  const run: InProcessJobsApi['run'] = (request, signal) =>
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
    follow: (jid, signal) => resumeJob(parts, jid, signal),
    list: (request) => listJobs(history, request),
    active: async () => cache.underWay(history.idleTimeoutMs).map(progressOf),
    plan: (request) => targets.plan(request),
    show: (jid) => showJob(history, jid),
  };
}

function progressOf({ jid, fun, minions, answered, publishedAt }: Job): JobProgress {
  return { jid, fun, minions: minions.size, answered, publishedAt };
}
