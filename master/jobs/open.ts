/** Jobs, from the parts of a master: whom they are for, how they are published, what is kept. */
import { createJidSource, type MasterTransport } from '../../minion-protocol/index.ts';
import type { MasterConfig } from '../config/options.ts';
import type { EventBus } from '../events/bus.ts';
import type { Foundations } from '../foundations.ts';
import { Publisher } from '../publisher.ts';
import { TargetResolver } from '../targeting/resolve.ts';
import { JobDispatcher } from './dispatcher.ts';
import { JobCache } from './job-cache.ts';

/** What they are made from. */
export interface JobParts {
  readonly config: MasterConfig;
  readonly foundations: Foundations;
  readonly transports: readonly MasterTransport[];
  readonly bus: EventBus;
  /** Ends what follows jobs. */
  readonly closing: AbortSignal;
  readonly now: () => number;
}

/** What the rest of a master needs of jobs. */
export interface Jobs {
  readonly jobs: JobCache;
  readonly targets: TargetResolver;
  readonly dispatcher: JobDispatcher;
  readonly nextJid: () => string;
}

export function openJobs({ config, foundations, transports, bus, closing, now }: JobParts): Jobs {
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
  const publisher = createPublisher(foundations, transports, config);
  const targets = new TargetResolver({
    acceptedIds: () => foundations.keys.acceptedIds(),
    isAccepted: (id) => foundations.keys.get(id)?.state === 'accepted',
    factsOf: (id) => foundations.facts.of(id),
    rightsOf: (id) => foundations.facts.rightsOf(id),
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
    audit: foundations.audit,
    nextJid,
    masterId: config.masterId,
    closing,
    now,
  });
  return { jobs, targets, dispatcher, nextJid };
}

function createPublisher(
  { publishKey, rsa, masterKeys }: Foundations,
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
