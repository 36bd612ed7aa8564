/** Creates the handlers of requests, by what they are about, and what bounds them. */

import type { Logger } from 'pino';
import type { Decision } from '../../acl/index.ts';
import { HourlyLimit, type Rate, Throttle, TokenBuckets } from '../../runtime/index.ts';
import type { Denial } from '../api/index.ts';
import { ArgumentReader } from '../arguments/index.ts';
import {
  type Auth,
  DropConnectionError,
  type SessionKeys,
  SignatureCheck,
  type VerifiedRequest,
} from '../auth/index.ts';
import type { LiveConfig } from '../config/index.ts';
import type { MasterContext } from '../context/index.ts';
import type { MinionData } from '../data/index.ts';
import { type EventBus, type Events, tags } from '../events/index.ts';
import type { Files } from '../files/index.ts';
import { type Functions, PeerPublisher, PeerRunner } from '../functions/index.ts';
import { type FactsOfMinion, type Jobs, type KnownFacts, ReturnKeeper } from '../jobs/index.ts';
import type { RequestCounters } from '../metrics/index.ts';
import type { Users } from '../users/index.ts';
import type { SignalIntake } from './extensions.ts';
import { type FileCommand, fileHandlers, fileRecvHandler } from './file-requests.ts';
import { minionEventHandler } from './minion-event.ts';
import {
  type MineHandlers,
  masterOptsHandler,
  mineHandlers,
  type PeerHandlers,
  peerHandlers,
  pillarHandler,
  resourcesHandler,
  returnHandler,
  revokeHandler,
  type TopsProvider,
  topsHandler,
} from './minion-requests.ts';
import type { ActiveHandlers } from './request-channel.ts';

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

/** Self-made jobs (`jid: req`) that a minion may report in an hour. */
const selfMadeJobsPerHour = 600;

/** Signals of one minion that wait because it is over its rate. */
const maxWaitingSignals = 64;

/**
 * Requests of one minion that wait because it is over its rate: twice what one connection may have
 * under way.
 */
const maxWaitingRequests = 128;

/** Values of the arguments that a minion gives to one function. */
const maxArgumentValues = 100_000;

/** How much minions may ask, and what they were denied. */
export interface RequestLimits {
  readonly config: Pick<LiveConfig, 'current'>;
  /** How many requests a minion may make. */
  readonly requests: Throttle;
  /** How many events a minion may fire. */
  readonly events: TokenBuckets;
  /** The same rate, for what waits for it. */
  readonly delayedEvents: Throttle;
  readonly denials: DenialLog;
  /** Whether a request was made before this master started, and may be a replay. */
  readonly isFromBefore: (request: VerifiedRequest) => boolean;
}

export interface RequestLimitDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly auth: Auth;
}

export function createRequestLimits({ config, context, auth }: RequestLimitDeps): RequestLimits {
  const { now } = context;
  const rateOf = (perSecond: number): Rate => ({ perSecond, burst: config.current.limits.burst });
  const { requestsPerSecond, eventsPerSecond } = config.current.limits;
  const requests = new TokenBuckets(rateOf(requestsPerSecond));
  const events = new TokenBuckets(rateOf(eventsPerSecond));
  config.onChange(({ limits }) => {
    requests.setRate(rateOf(limits.requestsPerSecond));
    events.setRate(rateOf(limits.eventsPerSecond));
  });
  return {
    config,
    requests: new Throttle(requests, maxWaitingRequests),
    events,
    delayedEvents: new Throttle(events, maxWaitingSignals),
    denials: new DenialLog(logOf(context), now),
    isFromBefore: replayCheck(auth.sessions, now()),
  };
}

function logOf({ log }: MasterContext): Logger {
  return log.child({ component: 'requests' });
}

// The handlers of requests, by what they are about.

export interface JobRequestDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly auth: Auth;
  readonly events: Events;
  readonly jobs: Jobs;
  readonly limits: RequestLimits;
}

/** Returns of jobs, and what minions manage. */
export function jobRequests(
  deps: JobRequestDeps,
): Pick<ActiveHandlers, '_register_resources' | '_return'> {
  const { config, context, auth, events, jobs, limits } = deps;
  const { counters, meter, now, nextJid } = context;
  const { requireMinionSignMessages, dropMessagesSignatureFail } = config.fixed;
  const { bus } = events;
  const { cache, resources } = jobs;
  return {
    _return: returnHandler({
      keeper: new ReturnKeeper({
        cache,
        isOfFormerOwner: (id, jid) => auth.retiredIds.has(id, jid),
        resources,
        bus,
        nextJid,
        now,
        selfMadeLimit: new HourlyLimit(selfMadeJobsPerHour),
        meter,
      }),
      signatures: new SignatureCheck({
        isRequired: requireMinionSignMessages,
        mustVerify: dropMessagesSignatureFail,
        acceptedKey: (id) => auth.keys.acceptedPem(id),
        verify: (pem, packed, signature) =>
          auth.rsa.run({ kind: 'check-load', pem, packed, signature }),
        counters,
        log: logOf(context),
      }),
      counters,
      meter,
      requestRate: limits.requests,
      config,
    }),
    _register_resources: resourcesHandler({ resources, bus, counters, config }),
  };
}

export interface EventRequestDeps {
  readonly context: MasterContext;
  readonly events: Events;
  readonly jobs: Jobs;
  readonly users: Users;
  readonly limits: RequestLimits;
  /** What takes signals that were let in. */
  readonly intakes: readonly SignalIntake[];
}

/** Events that minions fire. */
export function eventRequests(deps: EventRequestDeps): Pick<ActiveHandlers, '_minion_event'> {
  const { context, events, jobs, users, limits, intakes } = deps;
  return {
    _minion_event: minionEventHandler({
      bus: events.bus,
      jobs: jobs.cache,
      rate: limits.events,
      delayed: limits.delayedEvents,
      counters: context.counters,
      meter: context.meter,
      denials: limits.denials,
      gate: users.gate,
      intakes,
      config: limits.config,
      isFromBefore: limits.isFromBefore,
    }),
  };
}

export interface DataRequestDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly events: Events;
  readonly jobs: Jobs;
  readonly users: Users;
  readonly data: MinionData;
}

/** Pillar and mine. */
export function dataRequests(
  deps: DataRequestDeps,
): Pick<ActiveHandlers, '_pillar' | keyof MineHandlers> {
  const { config, context, events, jobs, users, data } = deps;
  const { fixed } = config;
  const { counters } = context;
  return {
    _pillar: pillarHandler(data.pillar, {
      maxGrainsBytes: fixed.limits.grainsBytes,
      merge: {
        strategy: fixed.pillarSourceMergingStrategy,
        mergeLists: fixed.pillarMergeLists,
      },
      keepFacts: factsKeeper(config, jobs.facts, events.bus),
      gate: users.gate,
      counters,
      log: logOf(context),
    }),
    ...mineHandlers({ mine: data.mine, reader: data.mineReader, counters }),
  };
}

export interface FileRequestDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly users: Users;
  readonly files: Files;
}

/** The file server, and files that minions push. */
export function fileRequests(
  deps: FileRequestDeps,
): Pick<ActiveHandlers, FileCommand | '_file_recv'> {
  const { config, context, users, files } = deps;
  const { counters } = context;
  const { limits, hashType, fileBufferSize: bufferBytes } = config.fixed;
  const { server, pushed } = files;
  const meter = new FileMeter(limits.fileBytesPerSecond, counters);
  const log = logOf(context);
  return {
    ...fileHandlers({ server, meter, hashType, bufferBytes }),
    _file_recv: fileRecvHandler({ pushed, gate: users.gate, meter, counters, log }),
  };
}

export interface PeerRequestDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly users: Users;
  readonly jobs: Jobs;
  readonly functions: Functions;
}

/** What minions ask of others, and of the master itself. */
export function peerRequests(deps: PeerRequestDeps): PeerHandlers {
  const { config, context, users, jobs, functions } = deps;
  const { counters, closers } = context;
  const { gate } = users;
  const { cache, dispatcher, targets, minions: facts } = jobs;
  const log = logOf(context);
  const reader = closers.add(new ArgumentReader(maxArgumentValues), (it) => it.close());
  const common = { cache, gate, counters, reader, log };
  const publisher = new PeerPublisher({ ...common, dispatcher, targets, facts, config });
  const runner = new PeerRunner({ ...common, runners: functions.runners });
  return peerHandlers({ publisher, runner, counters });
}

export interface MasterRequestDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly auth: Auth;
  readonly users: Users;
  readonly files: Files;
  /** Default: minions have no states but those of their top file. */
  readonly tops: TopsProvider | undefined;
}

/** Options of the master, further tops, and a minion's own key. */
export function masterRequests(
  deps: MasterRequestDeps,
): Pick<ActiveHandlers, '_master_opts' | '_master_tops' | 'revoke_auth'> {
  const { config, context, auth, users, files, tops = async () => ({}) } = deps;
  return {
    revoke_auth: revokeHandler(auth.keys, users.gate),
    _master_opts: masterOptsHandler(config, () => files.server.envs()),
    _master_tops: topsHandler(tops, logOf(context)),
  };
}

/** Keeps the facts of a minion, and tells it [WIRE 9.3]. */
function factsKeeper(
  config: LiveConfig,
  facts: KnownFacts,
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
