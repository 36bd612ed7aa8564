/**
 * Processes the requests of minions. Sign-in requests have their own handler. All other requests
 * pass through the request channel.
 */

import type { MasterTransport, Peer, WireMap } from '#minion-protocol';
import { TokenBuckets } from '#runtime';
import {
  type Auth,
  createFullnessCheck,
  DropConnectionError,
  type KeyAcceptanceHook,
  SignIn,
} from '../auth/index.ts';
import type { Cluster, MasterContext, ModuleDeps } from '../context/index.ts';
import type { Events } from '../events/index.ts';
import { Announcements, type Jobs } from '../jobs/index.ts';
import { requestLimits } from './limits.ts';
import { ReplayCache, type ReportedMark } from './replay-cache.ts';
import { RequestChannel, type RequestTable } from './request-channel.ts';
import type { RequestLimits } from './request-limits.ts';

export interface RequestDeps extends ModuleDeps {
  readonly auth: Auth;
  readonly signIn: SignIn;
  readonly limits: RequestLimits;
  /** The request types of the master and of its extensions. */
  readonly types: RequestTable;
}

/** Functions that process requests. The transports call them. */
export interface Requests {
  /** Answers a request that a transport has received. */
  readonly handle: Parameters<MasterTransport['listen']>[0];
  /** Processes an announcement that a minion sends on its publish connection. */
  readonly announce: (bytes: Uint8Array, peer: Peer) => Promise<void>;
}

/**
 * Counts a request that arrives while the data of this cluster member may be outdated, and returns
 * the error that rejects it. The minion then tries another master, or retries.
 */
function staleMember({ counters }: MasterContext): DropConnectionError {
  counters.count('cluster-stale');
  return new DropConnectionError('cluster-stale');
}

/**
 * Returns a function that sends the identifier of an answered request to the other cluster members,
 * so that they recognize a repetition.
 */
function reportMark(cluster: Pick<Cluster, 'send'>): (mark: ReportedMark) => void {
  return ({ minion, mark, expiresAt }) => cluster.send('request', { minion, mark, expiresAt });
}

function readMark({ minion, mark, expiresAt }: WireMap): ReportedMark | undefined {
  const isMark =
    typeof minion === 'string' &&
    mark instanceof Uint8Array &&
    mark.length >= 8 &&
    typeof expiresAt === 'number';
  return isMark ? { minion, mark, expiresAt } : undefined;
}

export function createRequests(deps: RequestDeps): Requests {
  const { config, context, auth, signIn, limits, types } = deps;
  const ttlSeconds = config.fixed.requestServerTtl;
  const { counters, cluster, now } = context;
  const { keys, publishKey, tokens } = auth;
  const log = context.log.child({ component: 'requests' });
  const acceptedKey = keys.acceptedPem.bind(keys);
  const repeats = new ReplayCache({ ttlSeconds, now, report: cluster && reportMark(cluster) });
  cluster?.onMessage('request', (value) => {
    const told = readMark(value);
    if (told !== undefined && keys.isAccepted(told.minion)) repeats.note(told);
  });
  auth.revocation.onRevoked((id) => repeats.forget(id));
  const channel = new RequestChannel({
    config: config.fixed,
    context,
    auth,
    signIn,
    table: new Map(types),
    limits,
    repeats,
    log,
  });
  const announcements = new Announcements({ publishKey, acceptedKey, tokens, counters, log });
  return {
    handle:
      cluster === undefined
        ? channel.handle.bind(channel)
        : (bytes, peer, turn) => {
            if (cluster.isStale()) throw staleMember(context);
            return channel.handle(bytes, peer, turn);
          },
    announce: (bytes, peer) => announcements.hear(bytes, peer),
  };
}

export interface SignInDeps extends ModuleDeps {
  readonly auth: Auth;
  readonly events: Events;
  readonly jobs: Jobs;
  /** Hook through which extensions decide about the keys of minions. */
  readonly advice: KeyAcceptanceHook;
}

export function createSignIn(deps: SignInDeps): SignIn {
  const { config, context, auth, events, jobs, advice } = deps;
  const { authsPerSecond } = config.current.limits;
  const rate = new TokenBuckets(requestLimits.signInRate, undefined, {
    perSecond: authsPerSecond,
    burst: authsPerSecond,
  });
  config.onChange(({ limits }) => {
    rate.setRate({ perSecond: limits.authsPerSecond, burst: limits.authsPerSecond });
  });
  const { lastRequests } = auth;
  return new SignIn({
    ...auth,
    ...context,
    bus: events.bus,
    rate,
    config,
    isFull: createFullnessCheck({ config, lastRequests, present: jobs.present, now: context.now }),
    advice,
    log: context.log.child({ component: 'requests' }),
  });
}
