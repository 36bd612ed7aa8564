/** What minions may ask for, from the parts of a master. */

import type { Logger } from 'pino';
import type { MasterConfig } from '../config/options.ts';
import type { EventBus } from '../events/bus.ts';
import { tags } from '../events/tags.ts';
import type { SignalIntake } from '../extensions/extension.ts';
import type { FileServer } from '../fileserver/file-server.ts';
import type { PushedFiles } from '../fileserver/pushed-files.ts';
import type { Foundations } from '../foundations.ts';
import type { JobDispatcher } from '../jobs/dispatcher.ts';
import type { JobCache } from '../jobs/job-cache.ts';
import type { MinionFacts } from '../jobs/ledger.ts';
import { ReturnKeeper } from '../jobs/returns.ts';
import type { RequestCounters } from '../limits/counters.ts';
import { HourlyLimit } from '../limits/hourly-limit.ts';
import { Throttle } from '../limits/throttle.ts';
import { TokenBuckets } from '../limits/token-bucket.ts';
import type { MineReader } from '../mine/mine-reader.ts';
import type { MineStore } from '../mine/mine-store.ts';
import type { WordReader } from '../peers/peer-load.ts';
import { PeerPublisher } from '../peers/peer-publisher.ts';
import { PeerRunner } from '../peers/peer-runner.ts';
import type { PillarSource } from '../pillar/answer.ts';
import type { PolicyGate } from '../policy/gate.ts';
import type { SessionKeys } from '../secrets/session-keys.ts';
import type { Services } from '../services.ts';
import type { FactsOfMinion } from '../targeting/minion-facts.ts';
import type { TargetResolver } from '../targeting/resolve.ts';
import type { DenialLog } from './denial-log.ts';
import { FileMeter } from './file-meter.ts';
import { fileRecvHandler } from './file-recv.ts';
import { type FileCommand, fileHandlers } from './files.ts';
import type { LastHeard } from './last-heard.ts';
import { masterOptsHandler } from './master-opts.ts';
import { mineHandlers } from './mine.ts';
import { minionEventHandler } from './minion-event.ts';
import { type PeerHandlerOptions, peerHandlers } from './peers.ts';
import { pillarHandler } from './pillar.ts';
import { rateOf } from './reloadable-rate.ts';
import type { VerifiedRequest } from './request.ts';
import { resourcesHandler } from './resources.ts';
import { returnHandler } from './return.ts';
import { revokeHandler } from './revoke.ts';
import { SignatureCheck } from './signature-check.ts';
import { type ActiveHandlers, createRequestTable, type RequestTable } from './table.ts';
import { type TopsProvider, topsHandler } from './tops.ts';

/** Self-made jobs (`jid: req`) that a minion may report in an hour. */
const selfMadeJobsPerHour = 600;

/** Signals of one minion that wait because it is over its rate. */
const maxWaitingSignals = 64;

/** What the handlers are made from. */
export interface HandlerParts {
  readonly config: MasterConfig;
  /** Decides what minions may. */
  readonly gate: PolicyGate;
  readonly foundations: Foundations;
  readonly bus: EventBus;
  readonly jobs: JobCache;
  readonly mine: MineStore;
  readonly mineReader: MineReader;
  readonly targets: TargetResolver;
  readonly dispatcher: JobDispatcher;
  readonly facts: MinionFacts;
  readonly services: Pick<Services, 'runners'>;
  /** What takes signals that were let in. */
  readonly intakes: readonly SignalIntake[];
  readonly nextJid: () => string;
  readonly counters: RequestCounters;
  readonly lastHeard: LastHeard;
  readonly pillar: PillarSource;
  readonly tops: TopsProvider;
  readonly fileServer: FileServer;
  readonly pushed: PushedFiles;
  /** Reads arguments of what minions ask others for. */
  readonly reader: WordReader;
  /** Whether a job was published to the owner that an id had before. */
  readonly isOfFormerOwner: (id: string, jid: string) => boolean;
  readonly now: () => number;
  readonly denials: DenialLog;
  /** How many requests a minion may make. */
  readonly requestRate: Throttle;
  readonly log: Logger;
}

/** Every handler that does something in this master, in its table. */
export function createHandlers(parts: HandlerParts): RequestTable {
  const { config, foundations, bus, jobs, counters, pillar, now, log } = parts;
  const keeper = new ReturnKeeper({
    cache: jobs,
    isOfFormerOwner: parts.isOfFormerOwner,
    resources: foundations.resources,
    bus,
    nextJid: parts.nextJid,
    now,
    selfMadeLimit: new HourlyLimit(selfMadeJobsPerHour),
    meter: foundations.meter,
  });
  const eventRate = new TokenBuckets(rateOf(config, 'eventsPerSecond'));
  return createRequestTable({
    ...createFileHandlers(parts),
    _return: returnHandler({
      keeper,
      signatures: new SignatureCheck({
        isRequired: config.requireMinionSignMessages,
        mustVerify: config.dropMessagesSignatureFail,
        acceptedKey: (id) => foundations.keys.acceptedPem(id),
        verify: (pem, packed, signature) =>
          foundations.rsa.run({ kind: 'check-load', pem, packed, signature }),
        counters,
        log,
      }),
      counters,
      meter: foundations.meter,
      requestRate: parts.requestRate,
      get maxBytes() {
        return config.limits.returnBytes;
      },
    }),
    _minion_event: minionEventHandler({
      bus,
      jobs,
      rate: eventRate,
      delayed: new Throttle(eventRate, maxWaitingSignals),
      counters,
      meter: foundations.meter,
      denials: parts.denials,
      gate: parts.gate,
      intakes: parts.intakes,
      get maxBytes() {
        return config.limits.eventBytes;
      },
      isFromBefore: replayCheck(foundations.sessions, now()),
    }),
    _pillar: pillarHandler(pillar, {
      maxGrainsBytes: config.limits.grainsBytes,
      merge: {
        strategy: config.pillarSourceMergingStrategy,
        mergeLists: config.pillarMergeLists,
      },
      keepFacts: factsKeeper(config, foundations, bus),
      gate: parts.gate,
      counters,
      log,
    }),
    ...peerHandlers(openPeers(parts)),
    ...mineHandlers({ mine: parts.mine, reader: parts.mineReader, counters }),
    _register_resources: resourcesHandler({
      resources: foundations.resources,
      bus,
      counters,
      hasEvents: config.minionDataCacheEvents,
    }),
    revoke_auth: revokeHandler(foundations.keys, parts.gate),
    _master_opts: masterOptsHandler(config, () => parts.fileServer.envs()),
    _master_tops: topsHandler(parts.tops, log),
  });
}

function createFileHandlers({
  config,
  gate,
  fileServer: server,
  counters,
  log,
  pushed,
}: HandlerParts): Pick<ActiveHandlers, FileCommand | '_file_recv'> {
  const { limits, hashType, fileBufferSize: bufferBytes } = config;
  const meter = new FileMeter(limits.fileBytesPerSecond, counters);
  return {
    ...fileHandlers({ server, meter, hashType, bufferBytes }),
    _file_recv: fileRecvHandler({
      pushed,
      gate,
      meter,
      counters,
      log,
    }),
  };
}

/** What minions may ask of others, and of the master itself. */
function openPeers(parts: HandlerParts): PeerHandlerOptions {
  const { config, counters, dispatcher, jobs: cache, targets, log } = parts;
  const publisher = new PeerPublisher({
    dispatcher,
    cache,
    targets,
    facts: parts.facts,
    defaults: config,
    gate: parts.gate,
    counters,
    reader: parts.reader,
    log,
  });
  const runner = new PeerRunner({
    runners: parts.services.runners,
    cache,
    gate: parts.gate,
    counters,
    reader: parts.reader,
    log,
  });
  return { publisher, runner, counters };
}

/** Keeps the facts of a minion, and tells it [WIRE 9.3]. */
function factsKeeper(
  config: MasterConfig,
  { facts }: Foundations,
  bus: EventBus,
): (minion: FactsOfMinion) => Promise<void> {
  return async (minion) => {
    if (!config.minionDataCache) return;
    await facts.keep([minion]);
    if (!config.minionDataCacheEvents) return;
    bus.fire(tags.dataRefreshed(minion.id), { 'Minion data cache refresh': minion.id });
  };
}

/**
 * What was seen before a restart is not remembered, so an event stamped before it is taken for a
 * replay, unless the session key was made after it: then nobody can have recorded it before.
 */
function replayCheck(
  sessions: SessionKeys,
  startedAt: number,
): (request: VerifiedRequest) => boolean {
  const startSecond = Math.floor(startedAt / 1000);
  return ({ minionId, ts }) => {
    if (minionId === undefined || ts === undefined || ts >= startSecond) return false;
    const madeAt = sessions.madeAt(minionId);
    return madeAt !== undefined && madeAt < startedAt;
  };
}
