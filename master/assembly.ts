/** How a running master is put together; the only place that sees all its parts. */
import { setMaxListeners } from 'node:events';
import type { Logger } from 'pino';
import { createJidSource, type MasterTransport } from '../minion-protocol/index.ts';
import type { MasterApi } from './api.ts';
import { Closers } from './closers.ts';
import { EventBus } from './events/bus.ts';
import { tags } from './events/tags.ts';
import { type Foundations, openFoundations } from './foundations.ts';
import { createApi } from './interface.ts';
import { JobDispatcher } from './jobs/dispatcher.ts';
import { JobCache } from './jobs/job-cache.ts';
import { AcceptedKeys } from './keys/accepted-keys.ts';
import { followKeys } from './keys/follow-keys.ts';
import { Revocation } from './keys/revocation.ts';
import { RequestCounters } from './limits/counters.ts';
import { startMaintenance } from './maintenance.ts';
import type { MasterParts } from './master.ts';
import { Publisher } from './publisher.ts';
import { LastHeard } from './requests/last-heard.ts';
import { openRequests } from './requests/open.ts';
import { RepeatGuard } from './requests/repeats.ts';
import { RpcServer } from './rpc/server.ts';
import { TargetResolver } from './targeting/resolve.ts';
import { createTransports } from './transports.ts';

/** A running master. */
export interface Assembly {
  readonly api: MasterApi;
  close(): Promise<void>;
}

/** Opens everything in order; what was opened is closed again when a step fails. */
export async function assemble(
  parts: MasterParts & { readonly logger: Logger },
): Promise<Assembly> {
  const closers = new Closers();
  try {
    const api = await open(parts, closers);
    return { api, close: () => closers.close() };
  } catch (error) {
    await closers.close();
    throw error;
  }
}

async function open(
  parts: MasterParts & { readonly logger: Logger },
  closers: Closers,
): Promise<MasterApi> {
  const { config, logger } = parts;
  const now = parts.now ?? Date.now;
  const foundations = await openFoundations(parts, closers, now);
  const counters = new RequestCounters();
  const bus = closers.add(
    new EventBus({ maxEventBytes: config.maxEventSize, now: () => new Date(now()) }),
    (it) => it.close(),
  );
  const transports = parts.transports ?? createTransports(config);
  const nextJid = createJidSource(
    () => new Date(now()),
    config.uniqueJid ? String(process.pid) : undefined,
  );
  const jobs = new JobCache({
    store: foundations.store,
    isOn: config.jobCache,
    keepMs: config.keepJobsSeconds * 1000,
    keepMarksMs: config.publishSession * 1000,
    now,
  });
  const publisher = createPublisher(foundations, transports, config);
  const closing = new AbortController();
  // Every job that is followed listens to it.
  setMaxListeners(0, closing.signal);
  const targets = new TargetResolver({
    acceptedIds: () => foundations.keys.acceptedIds(),
    factsOf: (id) => foundations.facts.of(id),
    isDataCached: config.minionDataCache,
    nodegroups: config.nodegroups,
  });
  const dispatcher = new JobDispatcher({
    targets,
    cache: jobs,
    bus,
    publisher,
    nextJid,
    masterId: config.masterId,
    closing: closing.signal,
    now,
  });
  const repeats = new RepeatGuard({ ttlSeconds: config.requestServerTtl, now });
  const lastHeard = new LastHeard();
  const revocation = closers.add(
    new Revocation({
      ...foundations,
      repeats,
      lastHeard,
      transports,
      bus,
      rotates: config.rotateAesKey,
      onRotated: async () => {
        if (config.pingOnRotate) await dispatcher.publish({ tgt: '*', fun: 'test.ping' });
      },
      now,
      log: logger.child({ component: 'keys' }),
    }),
    (it) => it.close(),
  );
  const bound = { publishPort: 0, requestPort: 0 };
  const requests = openRequests({
    config,
    foundations,
    bus,
    jobs,
    nextJid,
    counters,
    repeats,
    lastHeard,
    pillar: parts.pillar ?? (async () => ({})),
    publishPort: () => bound.publishPort,
    now,
    log: logger.child({ component: 'requests' }),
  });
  const accepted = new AcceptedKeys(foundations.store);
  const { keys } = foundations;
  const revokeLost = async (): Promise<void> => {
    await revocation.revokeLost(await accepted.lost(keys.list().accepted));
    await accepted.replace(keys.list().accepted);
  };
  await revokeLost();
  foundations.storeKeeper.onChange((isFull) => {
    bus.fire(isFull ? tags.storeFull : tags.storeRoom, {});
    if (isFull) return;
    // Keys that went while nothing could be written are as those that went before the start.
    revokeLost().catch((error: unknown) => logger.error({ err: error }, 'revocation failed'));
  });
  followKeys({ keys, bus, revocation, accepted, log: logger.child({ component: 'keys' }) });
  if (!config.preserveMinionCache) forgetDeleted(foundations, logger);
  for (const transport of transports) {
    closers.add(transport, (it) => it.close());
    Object.assign(
      bound,
      await transport.listen((bytes, peer) => requests.channel.handle(bytes, peer)),
    );
  }
  closers.add(startMaintenance({ config, foundations, revocation, now, log: logger }), (it) =>
    it.stop(),
  );
  const api = createApi({
    config,
    foundations,
    bus,
    dispatcher,
    targets,
    jobs,
    lastHeard,
    transports,
    counters,
    denials: requests.denials,
    bound,
    startedAt: now(),
    now,
  });
  const rpc = closers.add(new RpcServer(api, logger.child({ component: 'rpc' })), (it) =>
    it.close(),
  );
  await rpc.listen(config.socket);
  closers.add(closing, (it) => it.abort());
  logger.info({ ...bound, socket: config.socket }, 'master started');
  return api;
}

function createPublisher(
  { publishKey, rsa, masterKeys }: Foundations,
  transports: readonly MasterTransport[],
  config: MasterParts['config'],
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

/** Ends with an id's last key what is known of it. */
function forgetDeleted({ keys, facts }: Foundations, logger: Logger): void {
  const log = logger.child({ component: 'targeting' });
  keys.onChange(({ id, to }) => {
    if (to !== null || keys.get(id) !== undefined) return;
    facts.forget(id).catch((error: unknown) => {
      log.error({ minion: id, err: error }, 'minion data were not forgotten');
    });
  });
}
