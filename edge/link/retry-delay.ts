/** Delay of a site between two attempts to connect to its centre. */

import { EdgeError } from '../errors.ts';

/**
 * Upper limit of the random delay before the first attempt after a stable connection has ended, in
 * milliseconds. Each failure doubles the limit.
 */
const firstMs = 500;

const longestMs = 120_000;

/**
 * Upper limit of the random delay while the centre cannot be reached, in milliseconds. It is low
 * because such attempts cost the centre nothing, and the site must connect soon after the centre is
 * back.
 */
const longestUnreachedMs = 10_000;

/**
 * Maximum failure count if the connection failed after the centre had accepted the site. With this
 * count, the delay before the next attempt is at most 4 seconds.
 */
const mostFailuresIfAccepted = 3;

/** Error codes of connection attempts that did not reach a centre. */
const unreachedCodes: ReadonlySet<unknown> = new Set([
  'EAI_AGAIN',
  'ECONNREFUSED',
  'ECONNRESET',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'ETIMEDOUT',
]);

/** Counts failed attempts, and determines the upper limit of the delay before the next attempt. */
export class RetryDelay {
  #failures = 0;
  #longestMs = longestMs;

  /** Resets the delay. Called when a connection was stable. */
  reset(): void {
    this.#failures = 0;
    this.#longestMs = longestMs;
  }

  /**
   * Counts a failed attempt.
   * @param wasAccepted - whether the centre had accepted the site
   * @param error - reason of the failure, or `undefined` if the connection ended
   */
  fail(wasAccepted: boolean, error: unknown): void {
    const failures = this.#failures + 1;
    this.#failures = wasAccepted ? Math.min(failures, mostFailuresIfAccepted) : failures;
    this.#longestMs = isUnreached(error) ? longestUnreachedMs : longestMs;
  }

  /** Upper limit of the random delay before the next attempt, in milliseconds. */
  get maxMs(): number {
    return Math.min(this.#longestMs, firstMs * 2 ** Math.min(this.#failures, 20));
  }
}

function isUnreached(error: unknown): boolean {
  const cause = error instanceof EdgeError ? error.cause : undefined;
  return cause instanceof Error && 'code' in cause && unreachedCodes.has(cause.code);
}
