/** Creates the handlers of requests, from the parts of a master. */

import type { Logger } from 'pino';
import type { Decision } from '../../acl/index.ts';
import { HourlyLimit, type Rate, Throttle, TokenBuckets } from '../../runtime/index.ts';
import type { Denial } from '../api/index.ts';
import {
  type Auth,
  DropConnectionError,
  type LastHeard,
  type SessionKeys,
  SignatureCheck,
  type VerifiedRequest,
} from '../auth/index.ts';
import type { LiveConfig, ReloadableConfig } from '../config/index.ts';
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
import { type FileCommand, fileHandlers, fileRecvHandler } from './file-requests.ts';
import { minionEventHandler } from './minion-event.ts';
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

/** What a request costs that moves nothing: some 0.2 ms, in which 16 KiB could be moved. */
const leastBytes = 16 * 1024;
/** A highstate asks for much at once, and then for nothing. */
const burstSeconds = 2;
/** Many minions may share an address. */
const maxWaiting = 10_000;

/**
 * Delays requests for files over `file_bytes_per_second`, before their answer is made and takes
 * memory. A highstate asks hundreds of times, so they count against no other rate.
 */
export class FileMeter {
  readonly #throttle: Throttle;
  readonly #counters: RequestCounters;

  /** @param bytesPerSecond 0: without limit */
  constructor(bytesPerSecond: number, counters: RequestCounters) {
    const perSecond = bytesPerSecond;
    const buckets = new TokenBuckets({ perSecond, burst: burstSeconds * bytesPerSecond });
    this.#throttle = new Throttle(buckets, maxWaiting);
    this.#counters = counters;
  }

  /** Resolves when the minion may have so many bytes. @throws DropConnectionError */
  async pass({ isProven, minionId = '', address }: VerifiedRequest, bytes: number): Promise<void> {
    // An id that is only claimed might be another's, who would pay for it.
    const owner = isProven ? `id ${minionId}` : `address ${address}`;
    const count = Math.max(bytes, leastBytes);
    const isNext = await this.#throttle.pass(owner, count, () => {
      this.#counters.count('file-delayed');
    });
    if (!isNext) throw new DropConnectionError('too-many-waiting');
  }
}

/** Token buckets at a rate of the configuration, which follow it. */
export function openBuckets(
  config: LiveConfig,
  rateIn: (limits: ReloadableConfig['limits']) => Rate,
): TokenBuckets {
  const buckets = new TokenBuckets(rateIn(config.current.limits));
  config.onChange(({ limits }) => buckets.setRate(rateIn(limits)));
  return buckets;
}

/** Self-made jobs (`jid: req`) that a minion may report in an hour. */
const selfMadeJobsPerHour = 600;

/** Signals of one minion that wait because it is over its rate. */
const maxWaitingSignals = 64;

export interface HandlerDeps {
  readonly config: LiveConfig;
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
  const { fixed } = config;
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
  const eventRate = openBuckets(config, ({ eventsPerSecond, burst }) => ({
    perSecond: eventsPerSecond,
    burst,
  }));
  return createRequestTable({
    ...createFileHandlers(parts),
    _return: returnHandler({
      keeper,
      signatures: new SignatureCheck({
        isRequired: fixed.requireMinionSignMessages,
        mustVerify: fixed.dropMessagesSignatureFail,
        acceptedKey: (id) => foundations.keys.acceptedPem(id),
        verify: (pem, packed, signature) =>
          foundations.rsa.run({ kind: 'check-load', pem, packed, signature }),
        counters,
        log,
      }),
      counters,
      meter: foundations.meter,
      requestRate: parts.requestRate,
      config,
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
      config,
      isFromBefore: replayCheck(foundations.sessions, now()),
    }),
    _pillar: pillarHandler(pillar, {
      maxGrainsBytes: fixed.limits.grainsBytes,
      merge: {
        strategy: fixed.pillarSourceMergingStrategy,
        mergeLists: fixed.pillarMergeLists,
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
      config,
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
  const { limits, hashType, fileBufferSize: bufferBytes } = config.fixed;
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
    config,
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
  config: LiveConfig,
  { facts }: HandlerDeps['foundations'],
  bus: EventBus,
): (minion: FactsOfMinion) => Promise<void> {
  return async (minion) => {
    if (!config.fixed.minionDataCache) return;
    await facts.keep([minion]);
    if (!config.current.minionDataCacheEvents) return;
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

const burstMs = 60_000;
const maxRemembered = 1_000;
/** How often a minion may be noted for another tag: a flood of tags is no more than this in the log. */
const notes: Rate = { perSecond: 1, burst: 20 };

/**
 * Remembers the latest refused signals and logs each (minion, tag) once a burst: a minion that
 * repeats itself a thousand times a second costs one line a minute.
 */
export class DenialLog {
  readonly #log: Logger;
  readonly #now: () => number;
  readonly #rate: TokenBuckets;
  readonly #denials = new Map<string, Denial>();

  constructor(log: Logger, now: () => number) {
    this.#log = log;
    this.#now = now;
    this.#rate = new TokenBuckets(notes, now);
  }

  /** @returns whether it is the first of a burst, and was logged */
  note(minion: string, tag: string, { rule, reason }: Decision): boolean {
    const now = this.#now();
    const key = JSON.stringify([minion, tag]);
    const known = this.#denials.get(key);
    if (known !== undefined && now - known.firstAt < burstMs) {
      this.#denials.delete(key);
      this.#denials.set(key, { ...known, count: known.count + 1, lastAt: now });
      return false;
    }
    // protection: flood-of-lines
    if (!this.#rate.tryTake(minion)) return false;
    this.#denials.delete(key);
    this.#denials.set(key, { minion, tag, rule, reason, count: 1, firstAt: now, lastAt: now });
    this.#log.info({ minion, tag, rule, reason }, 'signal denied');
    this.#forgetOldest();
    return true;
  }

  /** The latest ones, oldest first. */
  list(): Denial[] {
    return [...this.#denials.values()];
  }

  #forgetOldest(): void {
    const [oldest] = this.#denials.keys();
    if (this.#denials.size > maxRemembered && oldest !== undefined) this.#denials.delete(oldest);
  }
}
