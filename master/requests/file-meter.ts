import type { RequestCounters } from '../limits/counters.ts';
import { delay } from '../limits/delay.ts';
import { TokenBuckets } from '../limits/token-bucket.ts';
import type { VerifiedRequest } from './request.ts';

/** What a request costs that moves nothing: some 0.2 ms, in which 16 KiB could be moved. */
const leastBytes = 16 * 1024;
/** A highstate asks for much at once, and then for nothing. */
const burstSeconds = 2;

/**
 * Delays requests for files over `file_bytes_per_second`, before their answer is made and takes
 * memory. A highstate asks hundreds of times, so they count against no other rate.
 */
export class FileMeter {
  readonly #buckets: TokenBuckets;
  readonly #counters: RequestCounters;

  /** @param bytesPerSecond 0: without limit */
  constructor(bytesPerSecond: number, counters: RequestCounters) {
    this.#buckets = new TokenBuckets({
      perSecond: bytesPerSecond,
      burst: burstSeconds * bytesPerSecond,
    });
    this.#counters = counters;
  }

  /** Resolves when the minion may have so many bytes. */
  async pass({ isProven, minionId = '', address }: VerifiedRequest, bytes: number): Promise<void> {
    // An id that is only claimed might be another's, who would pay for it.
    const owner = isProven ? `id ${minionId}` : `address ${address}`;
    const milliseconds = this.#buckets.take(owner, Math.max(bytes, leastBytes));
    if (milliseconds === 0) return;
    this.#counters.count('file-delayed');
    await delay(milliseconds);
  }
}
