/** How many refused tokens an address may show: each may cost Keystone a question [THREATS A-04]. */
import type { FastifyInstance } from 'fastify';
import { AuthenticationError, TokenBuckets } from '../../master/index.ts';

/** Those beyond it wait until they would be permitted again. */
const rate = { perSecond: 20, burst: 100 };

/**
 * Refuses requests (429) from an address that has shown too many tokens which were refused (401);
 * nothing of them is looked at. Other addresses are as they were.
 * @param now - milliseconds of a clock that only goes forward
 */
export function limitRefusedTokens(
  app: FastifyInstance,
  now: () => number = () => performance.now(),
): void {
  const refused = new TokenBuckets(rate, now);
  app.addHook('onRequest', async ({ ip }) => {
    if (refused.take(ip, 0) === 0) return;
    const text = 'too many tokens from this address were refused; try again later';
    throw new AuthenticationError('ERR_EAUTH_LIMIT', text);
  });
  app.addHook('onResponse', async ({ ip }, { statusCode }) => {
    // protection: refused-tokens
    if (statusCode === 401) refused.take(ip);
  });
}
