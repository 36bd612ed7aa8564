/** Rates at which the centre applies the log entries of each site. */

import { TokenBuckets } from '#runtime';
import { edgeLimits } from '../limits.ts';
import { bulkClasses, type LogClass } from './log.ts';
import { isMarker, type SentItem } from './log-codec.ts';
import { maxRawBytes } from './log-messages.ts';

/**
 * Counts the entries of sites and their bytes after decompression. Each class has its own rate, so
 * that many signals do not delay alarms.
 */
export class EntryRates {
  readonly #urgent: readonly [entries: TokenBuckets, bytes: TokenBuckets];
  readonly #bulk: readonly [entries: TokenBuckets, bytes: TokenBuckets];

  /** @param now - returns the time of a monotonic clock, in milliseconds */
  constructor(now?: () => number) {
    const { urgentEntries, urgentEntryBytes, bulkEntries, bulkEntryBytes } = edgeLimits;
    this.#urgent = [new TokenBuckets(urgentEntries, now), new TokenBuckets(urgentEntryBytes, now)];
    this.#bulk = [new TokenBuckets(bulkEntries, now), new TokenBuckets(bulkEntryBytes, now)];
  }

  /**
   * Counts a batch.
   * @param owner - site and class of the batch
   * @returns time to wait before the batch may be applied, in milliseconds
   */
  take(owner: string, name: LogClass, items: readonly SentItem[]): number {
    const [entries, bytes] = this.#of(name);
    const size = items.reduce((sum, it) => sum + (isMarker(it) ? 0 : it.value.length), 0);
    return Math.max(entries.take(owner, items.length), bytes.take(owner, size));
  }

  /**
   * Counts a batch that cannot be decoded as one entry of the maximum size.
   * @param owner - site and class of the batch
   * @returns time to wait before the batch is refused, in milliseconds
   */
  takeMalformed(owner: string, name: LogClass): number {
    const [entries, bytes] = this.#of(name);
    return Math.max(entries.take(owner, 1), bytes.take(owner, maxRawBytes));
  }

  #of(name: LogClass): readonly [entries: TokenBuckets, bytes: TokenBuckets] {
    return bulkClasses.includes(name) ? this.#bulk : this.#urgent;
  }
}
