/** Jobs, from the parts of a master: whom they are for, how they are published, what is kept. */
import { createJidSource, type MasterTransport } from '../../minion-protocol/index.ts';
import type { MasterConfig } from '../config/options.ts';
import type { EventBus } from '../events/bus.ts';
import type { Foundations } from '../foundations.ts';
import { Reconnecting } from '../presence/reconnecting.ts';
import { Publisher } from '../publisher.ts';
import type { LastHeard } from '../requests/last-heard.ts';
import { TargetResolver } from '../targeting/resolve.ts';
import { JobDispatcher } from './dispatcher.ts';
import { JobCache } from './job-cache.ts';
import type { MinionFacts } from './ledger.ts';

/** What they are made from. */
export interface JobParts {
  readonly config: MasterConfig;
  readonly foundations: Foundations;
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

export function openJobs(parts: JobParts): Jobs {
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
