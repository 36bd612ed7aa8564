/** Opens all modules of a master in order; the only file that knows all of them. */

import { setMaxListeners } from 'node:events';
import type { Logger } from 'pino';
import type { MasterTransport } from '../minion-protocol/index.ts';
import { Closers } from '../runtime/index.ts';
import {
  type AuditRequester,
  type InProcessApi,
  MasterError,
  type PresentMinion,
  type ReloadReport,
} from './api/index.ts';
import { ArgumentReader } from './arguments/index.ts';
import { auditedEvents, auditedReload, startAudit } from './audit/index.ts';
import {
  createKeyLifecycle,
  LastHeard,
  RetiredIds,
  Revocation,
  revokeLostKeys,
} from './auth/index.ts';
import { LiveConfig, type MasterConfig } from './config/index.ts';
import { type CoreServices, openCoreServices, startMaintenance } from './core-services.ts';
import { type MineStore, openMine, openPillarSource, Renderer } from './data/index.ts';
import { openEvents } from './events/index.ts';
import { openFileServer, PushedFiles } from './files/index.ts';
import { createServices, toFunctionsApi } from './functions/index.ts';
import { needingOwnRestart, openJobs, PresenceEvents, presentMinions } from './jobs/index.ts';
import type { StartedParts } from './master.ts';
import { type BoundTransport, createApi } from './master-interface.ts';
import { RequestCounters } from './metrics/index.ts';
import { openReactions, type Reactions } from './reactor/index.ts';
import { openExtensions, openRequests, ReplayCache, type Requests } from './requests/index.ts';
import { RpcServer } from './rpc/index.ts';
import { createTransports } from './transports.ts';
import {
  type LivePolicy,
  type Logins,
  logPolicyMode,
  OwnJobs,
  openPolicy,
  openUsers,
  warnAboutBackends,
} from './users/index.ts';

/** Values of the arguments that a minion gives to one function. */
const maxArgumentValues = 100_000;

/** A running master. */
export interface Assembly {
  readonly api: InProcessApi;
  /** What is in force now. */
  readonly config: MasterConfig;
  /** See `Master.reload`. */
  reload(config: MasterConfig, by?: AuditRequester): Promise<ReloadReport>;
  close(): Promise<void>;
}

/** Opens everything in order; what was opened is closed again when a step fails. */
export async function assemble(parts: StartedParts): Promise<Assembly> {
  const closers = new Closers();
  try {
    const live = new LiveConfig(parts.config);
    let reload: Assembly['reload'] = async () => {
      throw new MasterError('ERR_MASTER_STOPPED', 'this master is starting');
    };
    const own = { ...parts, config: live.view };
    const { api, foundations, policy, logins, reactions, transports } = await open(
      own,
      closers,
      (next, by) => reload(next, by),
    );
    reload = auditedReload(foundations.audit, async (next) => {
      // First, because it may throw: then nothing changes.
      const coming = live.preview(next);
      const takeOver = [policy.prepare(coming), reactions.prepare(coming)];
      const report = live.replace(next);
      for (const each of takeOver) each();
      foundations.keys.setPendingLimits(live.view.limits);
      await foundations.autoAccept.configure(live.view);
      logins.configure();
      await warnAboutBackends(logins, parts.logger);
      logPolicyMode(live.view.acl, parts.logger.child({ component: 'policy' }));
      return { ...report, certificates: await renewCertificates(transports, parts.logger) };
    });
    return { api, config: live.view, reload, close: () => closers.close() };
  } catch (error) {
    await closers.close();
    throw error;
  }
}

async function open(
  parts: StartedParts,
  closers: Closers,
  reload: Assembly['reload'],
): Promise<{
  readonly api: InProcessApi;
  readonly foundations: CoreServices;
  readonly policy: LivePolicy;
  readonly logins: Logins;
  readonly reactions: Reactions;
  readonly transports: readonly MasterTransport[];
}> {
  const { config, logger } = parts;
  const now = parts.now ?? Date.now;
  const foundations = await openCoreServices(parts, closers, now);
  const counters = new RequestCounters();
  const { bus, ...read } = await openEvents(
    { config, store: foundations.store, now, log: logger },
    closers,
  );
  const transports =
    parts.transports ?? createTransports(config, logger.child({ component: 'transport' }));
  const closing = new AbortController();
  // Every job that is followed listens to it.
  setMaxListeners(0, closing.signal);
  const lastHeard = new LastHeard();
  const { jobs, facts, targets, dispatcher, nextJid } = openJobs({
    config,
    foundations,
    transports,
    bus,
    lastHeard,
    closing: closing.signal,
    now,
  });
  startAudit(foundations, bus, config.id, closers);
  const { policy, gate, ruled } = openPolicy(
    { config, foundations, targets, now, log: logger.child({ component: 'policy' }) },
    closers,
  );
  const events = auditedEvents(read.events, ruled);
  const mine = await openMine({
    config,
    gate,
    store: foundations.store,
    targets,
    hasKey: (id) => foundations.keys.get(id) !== undefined,
    acceptedIds: () => foundations.keys.acceptedIds(),
    now,
    log: logger.child({ component: 'mine' }),
  });
  const repeats = new ReplayCache({ ttlSeconds: config.requestServerTtl, now });
  const revocation = closers.add(
    new Revocation({
      ...foundations,
      repeats,
      lastHeard,
      transports,
      bus,
      get rotates() {
        return config.rotateAesKey;
      },
      onRotated: async () => {
        if (config.pingOnRotate) await dispatcher.publish({ tgt: '*', fun: 'test.ping' });
      },
      now,
      log: logger.child({ component: 'keys' }),
    }),
    (it) => it.close(),
  );
  const pushed = new PushedFiles({
    cachedir: config.cachedir,
    maxFileBytes: config.fileRecvMaxSize * 1_048_576,
    maxMinionBytes: config.limits.pushedBytes,
    maxMinionFiles: config.limits.pushedFiles,
  });
  const formerOwners = await RetiredIds.open(foundations.store);
  const admission = createKeyLifecycle({
    config,
    foundations,
    revocation,
    lastHeard,
    mine: mine.mine,
    pushed,
    formerOwners,
    nextJid,
    now,
  });
  const extensions = await openExtensions(
    parts.extensions ?? [],
    {
      config,
      foundations,
      policy,
      ruled,
      targets,
      admission,
      jobs,
      nextJid,
      bus,
      closing: closing.signal,
      now,
      log: logger,
    },
    closers,
  );
  const fileServer = closers.add(
    await openFileServer(config, parts.fileserver, logger.child({ component: 'fileserver' })),
    (it) => it.close(),
  );
  const extPillar = [...(parts.extPillar ?? []), ...extensions.pillars];
  const pillar = await openPillarSource(
    config,
    { ...parts, extPillar },
    {
      closers,
      foundations,
      now,
      log: logger.child({ component: 'pillar' }),
    },
  );
  const { keys } = foundations;
  const present = (): PresentMinion[] =>
    presentMinions(transports, {
      acceptedIds: () => keys.acceptedIds(),
      lastRemote: (id) => lastHeard.lastRemote(id),
    });
  const rendering = closers.add(new Renderer(), (it) => it.close());
  const reader = closers.add(new ArgumentReader(maxArgumentValues), (it) => it.close());
  const services = createServices({
    ...mine,
    config,
    foundations,
    bus,
    dispatcher,
    targets,
    jobs,
    facts,
    present,
    logins: () => users.api,
    fileServer,
    pillar,
    rendering,
    nextJid,
    closing: closing.signal,
    now,
    log: logger.child({ component: 'runners' }),
  });
  closers.add(services.orchestrator, (it) => it.close());
  const reactions = closers.add(
    await openReactions({
      config,
      policy: () => policy.current,
      foundations,
      bus,
      targets,
      dispatcher,
      jobs,
      services,
      commands: extensions.commands,
      fileServer,
      nextJid,
      counters,
      present,
      closing: closing.signal,
      now,
      log: logger.child({ component: 'reactions' }),
    }),
    (it) => it.close(),
  );
  const requests = openRequests({
    config,
    gate,
    foundations,
    bus,
    jobs,
    ...mine,
    targets,
    dispatcher,
    facts,
    services,
    intakes: [reactions.intake, ...extensions.intakes],
    nextJid,
    counters,
    repeats,
    lastHeard,
    pillar,
    tops: parts.tops ?? (async () => ({})),
    fileServer,
    pushed,
    reader,
    isOfFormerOwner: (id, jid) => formerOwners.has(id, jid),
    advice: extensions.advice,
    present,
    now,
    log: logger.child({ component: 'requests' }),
  });
  await revokeLostKeys({
    foundations,
    bus,
    revocation,
    onKeyLost: extensions.onKeyLost,
    log: logger.child({ component: 'keys' }),
  });
  if (!config.preserveMinionCache) forgetDeleted(foundations, mine.mine, logger);
  const bound = await listen(transports, requests, closers);
  const users = await openUsers({
    config,
    foundations,
    policy,
    ruled,
    targets,
    jobs: services.jobs,
    runners: toFunctionsApi(services.runners),
    wheel: toFunctionsApi(services.wheel),
    keys: services.keys,
    events,
    ownJobs: new OwnJobs(nextJid),
    counters,
    now,
    log: logger.child({ component: 'eauth' }),
  });
  const logins = closers.add(users.logins, (it) => it.close());
  closers.add(
    startMaintenance({ config, foundations, revocation, logins, now, log: logger }),
    (it) => it.stop(),
  );
  if (config.presenceEvents) {
    const events = new PresenceEvents({ bus, present: () => present().map(({ id }) => id) });
    closers.add(events.start(config.loopInterval * 1000), (it) => it.stop());
  }
  reactions.start();
  const api = createApi({
    config,
    policy: () => policy.current,
    livePolicy: policy,
    reload,
    readConfig: parts.readConfig,
    targets,
    foundations,
    events,
    bus,
    services: { ...services, jobs: users.jobs },
    logins: users.api,
    asUser: users.asUser,
    reactions: reactions.api,
    present,
    transports,
    counters,
    denials: requests.denials,
    waitingRequests: requests.waiting,
    heardAt: (id) => lastHeard.of(id),
    bound,
    startedAt: now(),
  });
  await extensions.start({ api, holdToken: users.holdToken });
  const rpc = closers.add(
    new RpcServer(api, logger.child({ component: 'rpc' }), extensions.methods, config.maxEventSize),
    (it) => it.close(),
  );
  await rpc.listen(config.socket);
  closers.add(closing, (it) => {
    warnOfOwnRestarts(
      needingOwnRestart(present(), (id) => foundations.facts.of(id)),
      logger,
    );
    // First, so that no end of a job that follows from the closing is taken for its own.
    rpc.endStreams();
    it.abort();
  });
  logger.info({ transports: bound, socket: config.socket }, 'master started');
  return { api, foundations, policy, logins, reactions, transports };
}

/** @returns the certificates that were taken over; what cannot be is logged, and the former one stays */
async function renewCertificates(
  transports: readonly MasterTransport[],
  log: Logger,
): Promise<readonly string[]> {
  const renewed: string[] = [];
  for (const transport of transports) {
    try {
      renewed.push(...((await transport.renewCertificate?.()) ?? []));
    } catch (error) {
      const { name } = transport;
      log.error(
        { transport: name, err: error },
        'certificate not renewed; the one before stays in force',
      );
    }
  }
  return renewed;
}

/** Binds every port; from then on requests are answered. */
async function listen(
  transports: readonly MasterTransport[],
  { channel, announcements }: Requests,
  closers: Closers,
): Promise<readonly BoundTransport[]> {
  const bound: BoundTransport[] = [];
  for (const transport of transports) {
    closers.add(transport, (it) => it.close());
    const ports = await transport.listen(
      (bytes, peer, turn) => channel.handle(bytes, peer, turn),
      (bytes, peer) => announcements.hear(bytes, peer),
    );
    bound.push({ transport: transport.name, ...ports });
  }
  return bound;
}

/** Before the connections end: nobody can tell afterwards. */
function warnOfOwnRestarts(minions: readonly string[], logger: Logger): void {
  if (minions.length === 0) return;
  logger.warn({ minions }, 'these minions do not connect again: restart each after the master');
}

/** Ends with an id's last key what is known of it. */
function forgetDeleted(
  { keys, facts, resources }: CoreServices,
  mine: MineStore,
  logger: Logger,
): void {
  const log = logger.child({ component: 'targeting' });
  keys.onChange(({ id, to }) => {
    if (to !== null || keys.get(id) !== undefined) return;
    Promise.all([facts.forget(id), mine.forget(id), resources.forget(id)]).catch(
      (error: unknown) => {
        log.error({ minion: id, err: error }, 'minion data were not forgotten');
      },
    );
  });
}
