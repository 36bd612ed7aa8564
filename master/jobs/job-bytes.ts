import { LimitExceeded, TokenBuckets } from '#runtime';
import type { AuditRequester } from '../api/index.ts';
import { jobLimits } from './limits.ts';

/** Actors that belong to the operator. Their jobs are not limited. */
const unlimitedActors: ReadonlySet<string> = new Set(['local', 'master', 'service']);

/** Limits the number of bytes that the jobs of each user may store. */
export class JobBytes {
  readonly #buckets = new TokenBuckets(jobLimits.jobBytes);

  /**
   * Checks that the requester may store more bytes.
   * @throws LimitExceeded if the requester already stores too many bytes
   */
  requirePlace(by: AuditRequester | undefined): void {
    const owner = ownerOf(by);
    if (owner === undefined || this.#buckets.has(owner)) return;
    throw new LimitExceeded(jobLimits.jobBytes, jobLimits.jobBytes.rate?.burst ?? 0);
  }

  /** Adds a number of stored bytes to the count of a requester. */
  note(by: AuditRequester | undefined, bytes: number): void {
    const owner = ownerOf(by);
    if (owner !== undefined) this.#buckets.take(owner, bytes);
  }
}

/**
 * Returns the requester in the form in which the limit of stored bytes counts requesters. Returns
 * `undefined` if the limit does not apply.
 */
function ownerOf(by: AuditRequester | undefined): string | undefined {
  if (by === undefined || unlimitedActors.has(by.who.kind)) return undefined;
  return `${by.who.kind} ${by.who.name}`;
}
