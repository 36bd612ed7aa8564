import { type Rate, Throttle, TokenBuckets } from '#runtime';
import type { ListRequester } from '../api/index.ts';
import {
  type Auth,
  DropConnectionError,
  requestOwner,
  type VerifiedRequest,
} from '../auth/index.ts';
import type { ModuleDeps } from '../context/index.ts';
import type { RequestCounters } from '../metrics/index.ts';
import { DenialLog } from './denial-log.ts';
import { requestLimits } from './limits.ts';
import { LoadMeter, turnOwner } from './load-meter.ts';
import { replayCheck } from './replay-cache.ts';

/**
 * Minimum number of bytes that count towards the rate limit for each file request. A request
 * without data takes about 0.2 ms. In this time, 16 KiB could be transferred.
 */
const leastBytes = 16 * 1024;
/**
 * Number of bytes that count towards the rate limit for each path of a file list that is built or
 * packed. This work takes 1 to 2 microseconds. In this time, 256 bytes could be transferred.
 */
const bytesPerPath = 256;
/**
 * Size of the burst that a minion may receive without waiting, in seconds of its rate limit. Bursts
 * are necessary, because a highstate requests many files at once.
 */
const burstSeconds = 2;

/**
 * Limits the rate at which each minion receives files to `file_bytes_per_second`. Requests above
 * this rate wait, before memory is allocated for their reply. No other rate limit applies to file
 * requests, because a highstate sends hundreds of them.
 */
export class FileMeter {
  readonly #throttle: Throttle;
  readonly #counters: RequestCounters;

  /** @param bytesPerSecond - rate limit in bytes per second. 0 disables it */
  constructor(bytesPerSecond: number, counters: RequestCounters) {
    const perSecond = bytesPerSecond;
    const rate = { perSecond, burst: burstSeconds * bytesPerSecond };
    const buckets = new TokenBuckets(requestLimits.fileRate, undefined, rate);
    this.#throttle = new Throttle(requestLimits.waitingFileRequests, buckets);
    this.#counters = counters;
  }

  /**
   * Waits until the minion's rate limit permits this many bytes.
   * @throws DropConnectionError if too many file requests of the minion are already waiting
   */
  async pass(request: VerifiedRequest, bytes: number): Promise<void> {
    const count = Math.max(bytes, leastBytes);
    const isNext = await this.#throttle.pass(requestOwner(request), count, () => {
      this.#counters.count('file-delayed');
    });
    if (!isNext) throw new DropConnectionError('too-many-waiting');
  }

  /** Returns the minion of a request as the requester of file lists. */
  listRequester(request: VerifiedRequest): ListRequester {
    const { isProven, minionId, address } = request;
    return {
      owner: turnOwner({ minionId: isProven ? minionId : undefined, address }),
      pay: (paths) => this.pass(request, paths * bytesPerPath),
    };
  }
}

export interface RequestLimitDeps extends ModuleDeps {
  readonly auth: Auth;
}

export function createRequestLimits({ config, context, auth }: RequestLimitDeps) {
  const { now } = context;
  const rateOf = (perSecond: number): Rate => ({ perSecond, burst: config.current.limits.burst });
  const { requestsPerSecond, eventsPerSecond } = config.current.limits;
  const requests = new TokenBuckets(
    requestLimits.requestRate,
    undefined,
    rateOf(requestsPerSecond),
  );
  const events = new TokenBuckets(requestLimits.eventRate, undefined, rateOf(eventsPerSecond));
  config.onChange(({ limits }) => {
    requests.setRate(rateOf(limits.requestsPerSecond));
    events.setRate(rateOf(limits.eventsPerSecond));
  });
  return {
    config,
    /** Rate limit of a minion's requests. */
    requests: new Throttle(requestLimits.waitingRequests, requests),
    /**
     * Limits how fast each sender may send request contents (loads), by their bytes and elements.
     */
    loads: new LoadMeter(),
    /** Rate limit of a minion's events. Events above the limit are dropped. */
    events,
    /**
     * Makes a minion's signals wait while the minion exceeds its rate limit for events. Signals
     * count towards the same limit as the minion's other events.
     */
    delayedEvents: new Throttle(requestLimits.waitingSignals, events),
    denials: new DenialLog(context.log.child({ component: 'requests' }), now),
    /**
     * Whether a request was created before this master started. Such a request may be a replay,
     * because the master does not remember requests from before its start.
     */
    isFromBefore: replayCheck(auth.sessions, now()),
  };
}

/** Rate limits of minions, and the log of events that the policy rejected. */
export type RequestLimits = ReturnType<typeof createRequestLimits>;
