/** What bounds requests of minions: rates, and what is remembered of those that were denied. */

import { type Rate, Throttle, TokenBuckets } from '#runtime';
import { type Auth, DropConnectionError, type VerifiedRequest } from '../auth/index.ts';
import type { ModuleDeps } from '../context/index.ts';
import type { RequestCounters } from '../metrics/index.ts';
import { DenialLog } from './denial-log.ts';
import { replayCheck } from './replay-cache.ts';

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

/** Signals of one minion that wait because it is over its rate. */
const maxWaitingSignals = 64;

/**
 * Requests of one minion that wait because it is over its rate: twice what one connection may have
 * under way.
 */
const maxWaitingRequests = 128;

export interface RequestLimitDeps extends ModuleDeps {
  readonly auth: Auth;
}

export function createRequestLimits({ config, context, auth }: RequestLimitDeps) {
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
    /** How many requests a minion may make. */
    requests: new Throttle(requests, maxWaitingRequests),
    /** How many events a minion may fire. */
    events,
    /** The same rate, for what waits for it. */
    delayedEvents: new Throttle(events, maxWaitingSignals),
    denials: new DenialLog(context.log.child({ component: 'requests' }), now),
    /** Whether a request was made before this master started, and may be a replay. */
    isFromBefore: replayCheck(auth.sessions, now()),
  };
}

/** Rates of minions' requests, and the signals that were denied. */
export type RequestLimits = ReturnType<typeof createRequestLimits>;
