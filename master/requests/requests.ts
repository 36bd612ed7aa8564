/** The requests of minions: sign-in, the request channel, and the handler of each. */

import type { LiveConfig } from '#config';
import {
  envelopeLimits,
  loadLimits,
  type MasterTransport,
  type Peer,
  type WireMap,
} from '#minion-protocol';
import { HourlyLimit, TokenBuckets } from '#runtime';
import type { Files } from '#salt/files/index.ts';
import type { MinionData } from '#salt/pillar/index.ts';
import { type Functions, PeerPublisher, PeerRunner } from '#salt/runners/index.ts';
import { ArgumentReader } from '../arguments/index.ts';
import {
  type Auth,
  createFullnessCheck,
  DropConnectionError,
  type KeyAcceptanceHook,
  SignatureCheck,
  SignIn,
} from '../auth/index.ts';
import type { Cluster, MasterContext } from '../context/index.ts';
import { type EventBus, type Events, tags } from '../events/index.ts';
import {
  Announcements,
  type FactsOfMinion,
  type Jobs,
  type KnownFacts,
  ReturnKeeper,
} from '../jobs/index.ts';
import type { Users } from '../users/index.ts';
import type { Extensions, SignalIntake } from './extensions.ts';
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
import { ReplayCache, type ToldMark } from './replay-cache.ts';
import {
  type ActiveHandlers,
  ClearRequests,
  createRequestTable,
  RequestChannel,
} from './request-channel.ts';
import { FileMeter, logOf, type RequestLimits } from './request-limits.ts';

export interface RequestDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly auth: Auth;
  readonly signIn: SignIn;
  readonly limits: RequestLimits;
  readonly handlers: ActiveHandlers;
}

/** What transports hand requests to. */
export interface Requests {
  /** Answers a request. */
  readonly handle: Parameters<MasterTransport['listen']>[0];
  /** Hears what a minion says of itself at the publish port. */
  readonly announce: (bytes: Uint8Array, peer: Peer) => Promise<void>;
}

/** Minions go to another master, or try again. */
function staleMember({ counters }: MasterContext): DropConnectionError {
  counters.count('cluster-stale');
  return new DropConnectionError('cluster-stale');
}

/** Tells the other members of requests that were answered. */
function tellMark(cluster: Pick<Cluster, 'send'>): (mark: ToldMark) => void {
  return ({ minion, mark, expiresAt }) => cluster.send('request', { minion, mark, expiresAt });
}

function readMark({ minion, mark, expiresAt }: WireMap): ToldMark | undefined {
  const isMark =
    typeof minion === 'string' &&
    mark instanceof Uint8Array &&
    mark.length >= 8 &&
    typeof expiresAt === 'number';
  return isMark ? { minion, mark, expiresAt } : undefined;
}

export function createRequests(deps: RequestDeps): Requests {
  const { config, context, auth, signIn, limits, handlers } = deps;
  const { requestServerTtl: ttlSeconds, limits: sizes } = config.fixed;
  const { counters, meter, now } = context;
  const { keys, rsa, masterKeys, publishKey, sessions, pins, versions, tokens, lastHeard } = auth;
  const log = context.log.child({ component: 'requests' });
  const acceptedKey = keys.acceptedPem.bind(keys);
  const { cluster } = context;
  const repeats = new ReplayCache({ ttlSeconds, now, tell: cluster && tellMark(cluster) });
  cluster?.onMessage('request', (value) => {
    const told = readMark(value);
    // protection: requests-of-other-members
    if (told !== undefined && keys.isAccepted(told.minion)) repeats.note(told);
  });
  auth.revocation.onRevoked((id) => repeats.forget(id));
  const channel = new RequestChannel({
    clear: new ClearRequests(signIn, counters, meter),
    table: createRequestTable(handlers),
    publishKey,
    sessions,
    pins,
    versions,
    lastHeard,
    acceptedKey,
    tokens,
    repeats,
    rate: limits.requests,
    counters,
    meter,
    sealPrivate: ({ version, nonce, encAlgo, sigAlgo }, minionPem, pillar) =>
      rsa.run({
        kind: 'private',
        minionPem,
        reply: {
          version,
          nonce,
          encAlgo,
          sigAlgo,
          pillar,
          masterKey: masterKeys.privateKey,
        },
      }),
    ttlSeconds,
    envelopeLimits: { ...envelopeLimits, maxBytes: sizes.requestBytes },
    loadLimits: { ...loadLimits, maxBytes: sizes.requestBytes },
    now,
    log,
  });
  const announcements = new Announcements({ publishKey, acceptedKey, tokens, counters, log });
  return {
    handle:
      cluster === undefined
        ? channel.handle.bind(channel)
        : (bytes, peer, turn) => {
            // protection: stale-member
            if (cluster.isStale()) throw staleMember(context);
            return channel.handle(bytes, peer, turn);
          },
    announce: (bytes, peer) => announcements.hear(bytes, peer),
  };
}

export interface SignInDeps {
  readonly config: LiveConfig;
  readonly context: MasterContext;
  readonly auth: Auth;
  readonly events: Events;
  readonly jobs: Jobs;
  /** What extensions know of keys that minions show. */
  readonly advice: KeyAcceptanceHook;
}

export function createSignIn(deps: SignInDeps): SignIn {
  const { config, context, auth, events, jobs, advice } = deps;
  const { counters, meter, now } = context;
  const { authsPerSecond } = config.current.limits;
  const rate = new TokenBuckets({ perSecond: authsPerSecond, burst: authsPerSecond });
  config.onChange(({ limits }) => {
    rate.setRate({ perSecond: limits.authsPerSecond, burst: limits.authsPerSecond });
  });
  const { lastHeard } = auth;
  return new SignIn({
    ...auth,
    bus: events.bus,
    counters,
    meter,
    rate,
    config,
    isFull: createFullnessCheck({ config, lastHeard, present: () => jobs.present(), now }),
    advice,
    log: context.log.child({ component: 'requests' }),
  });
}

/** Self-made jobs (`jid: req`) that a minion may report in an hour. */
const selfMadeJobsPerHour = 600;

/** Values of the arguments that a minion gives to one function. */
const maxArgumentValues = 100_000;

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
        isOfFormerOwner: auth.retiredIds.has.bind(auth.retiredIds),
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
        acceptedKey: auth.keys.acceptedPem.bind(auth.keys),
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
  readonly extensions: Pick<Extensions, 'minionRunners'>;
}

/** What minions ask of others, and of the master itself. */
export function peerRequests(deps: PeerRequestDeps): PeerHandlers {
  const { config, context, users, jobs, functions, extensions } = deps;
  const { counters, closers } = context;
  const { gate } = users;
  const { cache, dispatcher, targets, minions: facts } = jobs;
  const log = logOf(context);
  const reader = closers.add(new ArgumentReader(maxArgumentValues), (it) => it.close());
  const common = { cache, gate, counters, reader, log };
  const publisher = new PeerPublisher({ ...common, dispatcher, targets, facts, config });
  const runner = new PeerRunner({
    ...common,
    runners: functions.runners,
    minionRunners: extensions.minionRunners,
  });
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
