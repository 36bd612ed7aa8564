import { LimitExceeded, TokenBuckets } from '#runtime';
import { type AuditRequester, limitOwnerOf } from '../api/index.ts';
import { jobLimits } from './limits.ts';

/**
 * Limits the total size of the jobs that each user stores in a period, in bytes. The limit
 * `jobBytes` defines the rate.
 */
export class JobBytes {
  readonly #buckets = new TokenBuckets(jobLimits.jobBytes);

  /**
   * Checks that the requester has not used up its limit of stored bytes.
   * @throws LimitExceeded if the requester has stored too many bytes
   */
  requirePlace(by: AuditRequester | undefined): void {
    const owner = limitOwnerOf(by);
    if (owner === undefined || this.#buckets.has(owner)) return;
    throw new LimitExceeded(jobLimits.jobBytes);
  }

  /** Counts stored bytes towards the limit of a requester. */
  note(by: AuditRequester | undefined, bytes: number): void {
    const owner = limitOwnerOf(by);
    if (owner !== undefined) this.#buckets.take(owner, bytes);
  }
}
