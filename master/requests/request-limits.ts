import { type Rate, Throttle, TokenBuckets } from '#runtime';
import { type Auth, DropConnectionError, type VerifiedRequest } from '../auth/index.ts';
import type { ModuleDeps } from '../context/index.ts';
import type { RequestCounters } from '../metrics/index.ts';
import { DenialLog } from './denial-log.ts';
import { replayCheck } from './replay-cache.ts';

/**
 * Minimum number of bytes that a file request is charged. A request without data takes about 0.2
 * ms. In this time, 16 KiB could be transferred.
 */
const leastBytes = 16 * 1024;
/**
 * Burst of a minion's limit for file data, in seconds of its rate. A highstate requests many files
 * at once, and then none for some time.
 */
const burstSeconds = 2;
/**
 * Maximum number of waiting file requests per minion or address. Many minions may share an address.
 */
const maxWaiting = 10_000;

/**
 * Delays file requests that exceed `file_bytes_per_second`, before memory is allocated for their
 * reply. A highstate sends hundreds of file requests, so no other rate limit applies to them.
 */
export class FileMeter {
  readonly #throttle: Throttle;
  readonly #counters: RequestCounters;

  /** @param bytesPerSecond rate limit in bytes per second. 0 disables it */
  constructor(bytesPerSecond: number, counters: RequestCounters) {
    const perSecond = bytesPerSecond;
    const buckets = new TokenBuckets({ perSecond, burst: burstSeconds * bytesPerSecond });
    this.#throttle = new Throttle(buckets, maxWaiting);
    this.#counters = counters;
  }

  /**
   * Resolves when the minion's rate limit permits this many bytes.
   * @throws DropConnectionError
   */
  async pass({ isProven, minionId = '', address }: VerifiedRequest, bytes: number): Promise<void> {
    // An unproven id may be that of another minion, which must not be charged. So the address is
    // charged.
    const owner = isProven ? `id ${minionId}` : `address ${address}`;
    const count = Math.max(bytes, leastBytes);
    const isNext = await this.#throttle.pass(owner, count, () => {
      this.#counters.count('file-delayed');
    });
    if (!isNext) throw new DropConnectionError('too-many-waiting');
  }
}

/** Maximum number of signals of one minion that wait for its rate limit. */
const maxWaitingSignals = 64;

/**
 * Maximum number of requests of one minion that wait for its rate limit. It is twice the number of
 * concurrent requests of a connection.
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
    /** Rate limit of each minion's requests. */
    requests: new Throttle(requests, maxWaitingRequests),
    /** Rate limit of each minion's events. */
    events,
    /** The same rate limit, for events that wait. */
    delayedEvents: new Throttle(events, maxWaitingSignals),
    denials: new DenialLog(context.log.child({ component: 'requests' }), now),
    /** Whether a request was created before this master started, so that it may be a replay. */
    isFromBefore: replayCheck(auth.sessions, now()),
  };
}

/** Rate limits of minions, and the log of events that the policy rejected. */
export type RequestLimits = ReturnType<typeof createRequestLimits>;
