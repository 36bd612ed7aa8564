/** Creates the handlers of requests, from the parts of a master. */

import type { Logger } from 'pino';
import { HourlyLimit, type Rate, Throttle, TokenBuckets } from '../../runtime/index.ts';
import {
  type Auth,
  type LastHeard,
  type SessionKeys,
  SignatureCheck,
  type VerifiedRequest,
} from '../auth/index.ts';
import type { MasterConfig } from '../config/index.ts';
import type { MineReader, MineStore, PillarSource } from '../data/index.ts';
import { type EventBus, tags } from '../events/index.ts';
import type { FileServer, PushedFiles } from '../files/index.ts';
import { PeerPublisher, PeerRunner, type Services, type WordReader } from '../functions/index.ts';
import {
  type FactsOfMinion,
  type JobCache,
  type JobDispatcher,
  type KnownFacts,
  type KnownResources,
  type MinionFacts,
  ReturnKeeper,
  type TargetResolver,
} from '../jobs/index.ts';
import type { Meter, RequestCounters } from '../metrics/index.ts';
import type { PolicyGate } from '../users/index.ts';
import type { SignalIntake } from './extensions.ts';
import { type FileCommand, FileMeter, fileHandlers, fileRecvHandler } from './file-requests.ts';
import { type DenialLog, minionEventHandler } from './minion-event.ts';
import {
  masterOptsHandler,
  mineHandlers,
  type PeerHandlerOptions,
  peerHandlers,
  pillarHandler,
  resourcesHandler,
  returnHandler,
  revokeHandler,
  type TopsProvider,
  topsHandler,
} from './minion-requests.ts';
import { type ActiveHandlers, createRequestTable, type RequestTable } from './request-channel.ts';

/** A rate that is read anew each time, because limits can change while the master runs. */
export function rateOf(config: MasterConfig, name: 'requestsPerSecond' | 'eventsPerSecond'): Rate {
  return {
    get perSecond() {
      return config.limits[name];
    },
    get burst() {
      return config.limits.burst;
    },
  };
}

/** Self-made jobs (`jid: req`) that a minion may report in an hour. */
const selfMadeJobsPerHour = 600;

/** Signals of one minion that wait because it is over its rate. */
const maxWaitingSignals = 64;

export interface HandlerDeps {
  readonly config: MasterConfig;
  /** Decides what minions may. */
  readonly gate: PolicyGate;
  readonly foundations: Auth & {
    readonly meter: Meter;
    readonly facts: KnownFacts;
    readonly resources: KnownResources;
  };
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
export function createHandlers(parts: HandlerDeps): RequestTable {
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
}: HandlerDeps): Pick<ActiveHandlers, FileCommand | '_file_recv'> {
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
function openPeers(parts: HandlerDeps): PeerHandlerOptions {
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
  { facts }: HandlerDeps['foundations'],
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
