/** Opens sign-in and the request channel. */

import {
  envelopeLimits,
  loadLimits,
  type MasterTransport,
  type Peer,
} from '../../minion-protocol/index.ts';
import { TokenBuckets } from '../../runtime/index.ts';
import { type Auth, createFullnessCheck, type KeyAcceptanceHook, SignIn } from '../auth/index.ts';
import type { LiveConfig } from '../config/index.ts';
import type { MasterContext } from '../context/index.ts';
import type { Events } from '../events/index.ts';
import { Announcements, type Jobs } from '../jobs/index.ts';
import { ReplayCache } from './replay-cache.ts';
import {
  type ActiveHandlers,
  ClearRequests,
  createRequestTable,
  RequestChannel,
} from './request-channel.ts';
import type { RequestLimits } from './request-limits.ts';

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

export function createRequests(deps: RequestDeps): Requests {
  const { config, context, auth, signIn, limits, handlers } = deps;
  const { requestServerTtl: ttlSeconds, limits: sizes } = config.fixed;
  const { counters, meter, now } = context;
  const { keys, rsa, masterKeys, publishKey, sessions, pins, versions, tokens, lastHeard } = auth;
  const log = context.log.child({ component: 'requests' });
  const acceptedKey = (id: string): string | undefined => keys.acceptedPem(id);
  const repeats = new ReplayCache({ ttlSeconds, now });
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
    handle: (bytes, peer, turn) => channel.handle(bytes, peer, turn),
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
