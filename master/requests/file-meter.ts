import type { RequestCounters } from '../limits/counters.ts';
import { Throttle } from '../limits/throttle.ts';
import { TokenBuckets } from '../limits/token-bucket.ts';
import { Unanswered, type VerifiedRequest } from './request.ts';

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

  /** Resolves when the minion may have so many bytes. @throws Unanswered */
  async pass({ isProven, minionId = '', address }: VerifiedRequest, bytes: number): Promise<void> {
    // An id that is only claimed might be another's, who would pay for it.
    const owner = isProven ? `id ${minionId}` : `address ${address}`;
    const count = Math.max(bytes, leastBytes);
    const isNext = await this.#throttle.pass(owner, count, () => {
      this.#counters.count('file-delayed');
    });
    if (!isNext) throw new Unanswered('too-many-waiting');
  }
}
