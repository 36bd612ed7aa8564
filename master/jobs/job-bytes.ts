import { LimitExceeded, TokenBuckets } from '#runtime';
import { type AuditRequester, isOfOperator } from '../api/index.ts';
import { jobLimits } from './limits.ts';

/**
 * Limits the rate at which each user may store jobs, in bytes. The limit is `jobBytes` of the job
 * limits.
 */
export class JobBytes {
  readonly #buckets = new TokenBuckets(jobLimits.jobBytes);

  /**
   * Checks that the requester has not used up its limit of stored bytes.
   * @throws LimitExceeded if the requester has stored too many bytes
   */
  requirePlace(by: AuditRequester | undefined): void {
    const owner = ownerOf(by);
    if (owner === undefined || this.#buckets.has(owner)) return;
    throw new LimitExceeded(jobLimits.jobBytes, jobLimits.jobBytes.rate?.burst ?? 0);
  }

  /** Counts stored bytes towards the limit of a requester. */
  note(by: AuditRequester | undefined, bytes: number): void {
    const owner = ownerOf(by);
    if (owner !== undefined) this.#buckets.take(owner, bytes);
  }
}

/**
 * Returns the name under which the bytes of a requester are counted: its kind and name. Returns
 * `undefined` if the limit does not apply to the requester.
 */
function ownerOf(by: AuditRequester | undefined): string | undefined {
  if (by === undefined || isOfOperator(by)) return undefined;
  return `${by.who.kind} ${by.who.name}`;
}
