import type { MasterTransport } from '#minion-protocol';
import type { InProcessJobsApi, JobUpdate, MinionInfo, PresentMinion } from '../api/index.ts';
import type { Audit } from '../audit/index.ts';
import type { Auth } from '../auth/index.ts';
import type { ModuleDeps } from '../context/index.ts';
import type { Events } from '../events/index.ts';
import { JobDispatcher } from './dispatcher.ts';
import type { MinionFacts } from './follow-job.ts';
import { takeOverFacts } from './import-facts.ts';
import { freshJid, JobCache } from './job-cache.ts';
import { createJobsApi } from './jobs-api.ts';
import type { JobsOfMembers } from './jobs-of-members.ts';
import { KnownResources } from './known-resources.ts';
import { KnownFacts } from './minion-facts.ts';
import { needingOwnRestart, PresenceEvents, presentMinions } from './presence.ts';
import { PublicationLog } from './publication-log.ts';
import { Publisher } from './publisher.ts';
import { Reachability } from './reachability.ts';
import { Reconnecting } from './reconnecting.ts';
import { type FollowOptions, resumeJob } from './resume-job.ts';
import { ReturnBytes } from './return-bytes.ts';
import { TargetResolver } from './targets.ts';

export interface JobDeps extends ModuleDeps {
  readonly auth: Auth;
  readonly audit: Audit;
  readonly events: Events;
  readonly transports: readonly MasterTransport[];
  /**
   * Exchange of jobs with other cluster members. Absent if the master does not belong to a cluster.
   */
  readonly others?: JobsOfMembers | undefined;
}

/** The jobs module of a master: jobs, and the known grains and pillar of minions. */
export interface Jobs {
  readonly cache: JobCache;
  /** Disk space of the stored returns. */
  readonly returnBytes: ReturnBytes;
  /**
   * Facts about minions, such as the time of the last request. They determine the state of each
   * minion in a job.
   */
  readonly minions: MinionFacts;
  /** Grains and pillar of minions. */
  readonly facts: KnownFacts;
  /** Resources that minions manage. */
  readonly resources: KnownResources;
  readonly targets: TargetResolver;
  readonly dispatcher: JobDispatcher;
  readonly api: InProcessJobsApi;
  /**
   * Follows a job that was published earlier.
   * @throws MasterError ERR_JOB_UNKNOWN
   */
  resume(jid: string, options: FollowOptions): AsyncIterable<JobUpdate>;
  /** Returns an unused job id. */
  freshJid(): Promise<string>;
  /** Returns the accepted minions that are subscribed to publications of this master. */
  present(): PresentMinion[];
  /**
   * Returns whether this master or another member of the cluster can reach a minion. See
   * {@link Reachability}.
   */
  isReachable(id: string): Promise<boolean>;
  /** Returns the minions with an accepted key. */
  list(): MinionInfo[];
  /**
   * Logs a warning about connected minions that do not reconnect by themselves after a restart of
   * the master.
   */
  warnOfOwnRestarts(): void;
  /** Starts to emit presence events periodically, if `presence_events` is set. */
  startPresenceEvents(): void;
}

/**
 * Creates the jobs module of a master.
 * @throws StoreError
 */
export async function createJobs(deps: JobDeps): Promise<Jobs> {
  const { config, context, auth, audit, events, transports } = deps;
  const { fixed } = config;
  const { store, cluster, now, nextJid } = context;
  const { keys, lastRequests } = auth;
  const hasKey = (id: string): boolean => keys.get(id) !== undefined;
  const facts = await openFacts(deps, hasKey);
  const maxBytes = fixed.limits.grainsBytes;
  const resources = await KnownResources.open({ store, maxBytes, hasKey, cluster });
  auth.onRetire((id) => facts.forget(id));
  auth.onKeyDeleted((id) => Promise.all([facts.forget(id), resources.forget(id)]));
  const publications = await PublicationLog.open({
    store,
    // Another member may have sent a publication that this member has not sent.
    directory: cluster === undefined ? context.stateDirectory : undefined,
    keepMs: config.current.keepJobsSeconds * 1000,
    now,
  });
  context.closers.add(publications, (it) => it.close());
  const returnBytes = await ReturnBytes.open({
    store,
    now,
    maxBytes: () => maxReturnBytes(deps),
    cluster,
    log: context.log.child({ component: 'jobs' }),
  });
  const cache = new JobCache({
    store,
    returnBytes,
    // In a cluster, jobs are always stored, because any member may receive the returns.
    isOn: fixed.jobCache || cluster !== undefined,
    isShared: cluster !== undefined,
    keepMs: config.current.keepJobsSeconds * 1000,
    keepMarksMs: fixed.publishSession * 1000,
    now,
    wasNeverSent: (publication) => publications.wasNeverSent(publication),
  });
  const reconnecting = new Reconnecting({
    signedIn: auth.sessions.ids,
    waitMs: fixed.reconnectWaitSeconds * 1000,
    lastRequests,
    now,
  });
  const minions: MinionFacts = {
    isAccepted: (id) => keys.isAccepted(id),
    lastHeardAt: (id) => lastRequests.of(id),
    isReconnecting: (id, publishedAt) => reconnecting.isReconnecting(id, publishedAt),
  };
  const targets = new TargetResolver({
    acceptedIds: keys.acceptedIds.bind(keys),
    isAccepted: (id) => keys.get(id)?.state === 'accepted',
    factsOf: (id) => facts.of(id),
    rightsOf: (id) => facts.rightsOf(id),
    resourcesOf: resources.of.bind(resources),
    isDataCached: fixed.minionDataCache,
    nodegroups: config.current.nodegroups,
  });
  config.onChange(({ keepJobsSeconds, nodegroups }) => {
    cache.keepFor(keepJobsSeconds * 1000);
    targets.useNodegroups(nodegroups);
  });
  const publisher = createPublisher(deps, publications, reconnecting);
  const others = deps.others?.open({
    cache,
    publisher,
    publishKey: auth.publishKey,
    addresseesOf: (minionIds) =>
      minionIds === null ? { minionIds, replayMs: 0 } : publisher.addressees(minionIds, true),
    now,
    log: context.log.child({ component: 'cluster' }),
  });
  const dispatcher = new JobDispatcher({
    targets,
    cache,
    bus: events.bus,
    publisher,
    cluster: others,
    audit,
    context,
    masterId: fixed.masterId,
  });
  auth.revocation.onRotated(async () => {
    if (config.current.pingOnRotate) await dispatcher.publish({ tgt: '*', fun: 'test.ping' });
  });
  const present = (): PresentMinion[] =>
    presentMinions(transports, {
      acceptedIds: () => keys.acceptedIds(),
      lastRemote: (id) => lastRequests.lastRemote(id),
    });
  const reachability = new Reachability({
    dispatcher,
    isAccepted: minions.isAccepted,
    waitMs: () => config.current.gatherJobTimeout * 1000,
    log: context.log,
  });
  const apiDeps = { dispatcher, targets, cache, config, facts: minions, now, startedAt: now() };
  return {
    cache,
    returnBytes,
    minions,
    facts,
    resources,
    targets,
    dispatcher,
    api: createJobsApi(apiDeps),
    resume: (jid, options) => resumeJob(apiDeps, jid, options),
    freshJid: () => freshJid(nextJid, cache),
    present,
    isReachable: (id) => reachability.isReachable(id),
    list: () => listMinions(auth, present(), facts),
    warnOfOwnRestarts: () => {
      const minions = needingOwnRestart(present(), (id) => facts.of(id));
      if (minions.length === 0) return;
      context.log.warn(
        { minions },
        'some minions do not reconnect by themselves after a restart of the master; after each restart of the master, restart the minions in the field `minions`',
      );
    },
    startPresenceEvents: () => {
      if (!fixed.presenceEvents) return;
      const ids = (): string[] => present().map(({ id }) => id);
      const presence = new PresenceEvents({ bus: events.bus, present: ids });
      context.closers.add(presence.start(fixed.loopInterval * 1000), (it) => it.stop());
    },
  };
}

/** Part of the disk space of the store that returns may use by default. */
const diskShare = 2 / 3;

/** Returns the maximum number of bytes of all stored returns. `undefined` if it is unknown. */
async function maxReturnBytes({ config, context }: JobDeps): Promise<number | undefined> {
  const { storedReturnBytes } = config.fixed.limits;
  if (storedReturnBytes === 0) return Infinity;
  if (storedReturnBytes !== null) return storedReturnBytes;
  const space = await context.disk.space();
  return space === undefined ? undefined : space * diskShare;
}

/**
 * Opens the stored grains and pillar of minions. If there are none, imports them from a
 * salt-master's cache.
 */
async function openFacts(
  { config: { fixed: config }, context, auth }: JobDeps,
  hasKey: (id: string) => boolean,
): Promise<KnownFacts> {
  const maxBytes = config.limits.grainsBytes;
  const facts = await KnownFacts.open({
    store: context.store,
    seal: auth.seal,
    isOn: config.minionDataCache,
    maxBytes,
    cluster: context.cluster,
    hasKey: (id) => config.preserveMinionCache || hasKey(id),
  });
  if (!config.minionDataCache || facts.size > 0) return facts;
  const log = context.log.child({ component: 'targeting' });
  const count = await takeOverFacts(facts, {
    cachedir: config.cachedir,
    ids: auth.keys.acceptedIds(),
    maxBytes: 2 * maxBytes,
    log,
  });
  if (count > 0)
    log.info(
      { minions: count },
      'imported grains and pillar of minions from the cache of a salt-master',
    );
  return facts;
}

function listMinions(
  { keys, lastRequests }: Auth,
  present: readonly PresentMinion[],
  facts: KnownFacts,
): MinionInfo[] {
  const there = new Map(present.map((it) => [it.id, it]));
  const staying = new Set(needingOwnRestart(present, (id) => facts.of(id)));
  return keys.acceptedIds().map((id) => {
    const at = lastRequests.of(id);
    return {
      id,
      isPresent: there.has(id),
      ...(there.get(id)?.isSure === false ? { isUnsure: true } : {}),
      ...(at === undefined ? {} : { heardAt: at }),
      ...(staying.has(id) ? { needsOwnRestart: true } : {}),
    };
  });
}

function createPublisher(
  { config: { fixed: config }, auth, transports }: JobDeps,
  log: PublicationLog,
  reconnecting: Reconnecting,
): Publisher {
  const { publishKey, rsa, masterKeys } = auth;
  return new Publisher({
    publishKey,
    transports,
    log,
    reconnecting,
    rsa,
    masterKey: config.signPubMessages ? masterKeys.privateKey : undefined,
    signingAlgorithm: config.publishSigningAlgorithm,
  });
}
