/** HTTP routes below `/bridge/v1`: their common hooks and settings. */

import type { FastifyInstance } from 'fastify';
import { AuthenticationError, type OpenExtension } from '#master';
import { addressOwner, TokenBuckets, writeJson } from '#runtime';
import type { BridgeContribution } from '../bridge-extension.ts';
import { sendBridgeError } from '../http-problems.ts';
import { bridgeLimits } from '../limits.ts';

/**
 * Limits requests with rejected tokens (status 401). If an address exceeds the limit, all its
 * requests are rejected (status 429) without being read. Requests from other addresses are not
 * affected.
 * @param now - monotonic clock, in milliseconds
 */
export function limitRefusedTokens(
  app: FastifyInstance,
  now: () => number = () => performance.now(),
): void {
  const refused = new TokenBuckets(bridgeLimits.refusedTokens, now);
  app.addHook('onRequest', async ({ ip }) => {
    if (refused.take(addressOwner(ip), 0) === 0) return;
    const text = 'too many rejected tokens from this address; try again later';
    throw new AuthenticationError('ERR_EAUTH_LIMIT', text);
  });
  app.addHook('onResponse', async ({ ip }, { statusCode }) => {
    if (statusCode === 401) refused.take(addressOwner(ip));
  });
}

/** Routes of a bridge, for an HTTP server such as that of `createSaltApi`. */
export type BridgePlugin = Required<NonNullable<OpenExtension['routes']>[number]>;

/**
 * Creates the plugin.
 * @param contributions - returns the contributions of the open extensions; called when a server is
 * created
 */
export function createBridgePlugin(
  contributions: () => readonly Pick<BridgeContribution, 'addRoutes' | 'rpc'>[],
): BridgePlugin {
  return {
    prefix: '/bridge/v1',
    // Set the operation id to the name of the RPC method on the local socket: `bridge.<name>`.
    methods: () => ({ bridge: Object.assign({}, ...contributions().map(({ rpc }) => rpc)) }),
    register: (app, server) => {
      app.addContentTypeParser('application/json', server.readJson);
      app.setReplySerializer((payload) => writeJson(payload));
      // The schemas of routes only document them. Handlers validate a body after they have
      // authenticated the caller.
      app.setValidatorCompiler(() => () => true);
      app.setSerializerCompiler(() => writeJson);
      limitRefusedTokens(app);
      app.setErrorHandler((error, { url }, reply) => sendBridgeError(error, reply, url));
      for (const { addRoutes } of contributions()) addRoutes?.(app, server);
    },
  };
}
