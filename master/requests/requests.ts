/** Opens the request channel of a master, from its parts. */

import { envelopeLimits, loadLimits } from '../../minion-protocol/index.ts';
import { Throttle, TokenBuckets } from '../../runtime/index.ts';
import type { PresentMinion } from '../api/index.ts';
import {
  createFullnessCheck,
  type KeyAcceptanceHook,
  SignIn,
  TokenCheck,
  VersionCheck,
} from '../auth/index.ts';
import { Announcements } from '../jobs/index.ts';
import { createHandlers, type HandlerDeps, rateOf } from './handlers.ts';
import { DenialLog } from './minion-event.ts';
import type { ReplayCache } from './replay-cache.ts';
import { ClearRequests, RequestChannel } from './request-channel.ts';
export interface RequestDeps extends Omit<HandlerDeps, 'denials' | 'requestRate'> {
  readonly repeats: ReplayCache;
  readonly present: () => readonly PresentMinion[];
  /** What extensions know of keys that minions show. */
  readonly advice: KeyAcceptanceHook;
}

/**
 * Requests of one minion that wait because it is over its rate: twice what one connection may have
 * under way.
 */
const maxWaitingRequests = 128;

/** The request channel, and the log of denials. */
export interface Requests {
  readonly channel: RequestChannel;
  readonly denials: DenialLog;
  /** Requests that wait because their minion is over its rate. */
  readonly waiting: () => number;
  /** Believes, or not, what minions say of themselves at the publish port. */
  readonly announcements: Announcements;
}

export function openRequests(parts: RequestDeps): Requests {
  const { config, foundations, counters, log, now } = parts;
  const { keys, rsa, masterKeys } = foundations;
  const acceptedKey = (id: string): string | undefined => keys.acceptedPem(id);
  const denials = new DenialLog(log, now);
  const requestRate = new Throttle(
    new TokenBuckets(rateOf(config, 'requestsPerSecond')),
    maxWaitingRequests,
  );
  const tokens = new TokenCheck((pem, token) => rsa.run({ kind: 'check-token', pem, token }));
  const versions = new VersionCheck({
    pins: foundations.pins,
    isAccepted: (id) => keys.isAccepted(id),
    now,
    log,
  });
  const channel = new RequestChannel({
    clear: new ClearRequests(openSignIn(parts, versions), counters, foundations.meter),
    table: createHandlers({ ...parts, denials, requestRate }),
    publishKey: foundations.publishKey,
    sessions: foundations.sessions,
    pins: foundations.pins,
    versions,
    lastHeard: parts.lastHeard,
    acceptedKey,
    tokens,
    repeats: parts.repeats,
    rate: requestRate,
    counters,
    meter: foundations.meter,
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
    ttlSeconds: config.requestServerTtl,
    envelopeLimits: { ...envelopeLimits, maxBytes: config.limits.requestBytes },
    loadLimits: { ...loadLimits, maxBytes: config.limits.requestBytes },
    now,
    log,
  });
  const announcements = new Announcements({
    publishKey: foundations.publishKey,
    acceptedKey,
    tokens,
    counters,
    log,
  });
  return { channel, denials, waiting: () => requestRate.waiting, announcements };
}

function openSignIn(parts: RequestDeps, versions: VersionCheck): SignIn {
  const { config, foundations, bus, counters, log } = parts;
  return new SignIn({
    ...foundations,
    versions,
    bus,
    counters,
    rate: new TokenBuckets({
      get perSecond() {
        return config.limits.authsPerSecond;
      },
      get burst() {
        return config.limits.authsPerSecond;
      },
    }),
    rules: config,
    isFull: createFullnessCheck({ ...parts, rules: config }),
    advice: parts.advice,
    log,
  });
}
