/** HTTP routes below `/bridge/v1`: hooks and settings that all of them share. */

import type { FastifyInstance } from 'fastify';
import { AuthenticationError, type OpenExtension } from '#master';
import { TokenBuckets, writeJson } from '#runtime';
import type { BridgeContribution } from '../bridge-extension.ts';
import { sendBridgeError } from '../http-problems.ts';
import { bridgeLimits } from '../limits.ts';

/**
 * Rejects requests (429) from an address that has sent too many rejected tokens (401), without
 * reading them. Other addresses are unaffected.
 * @param now - monotonic clock, in milliseconds
 */
export function limitRefusedTokens(
  app: FastifyInstance,
  now: () => number = () => performance.now(),
): void {
  const refused = new TokenBuckets(bridgeLimits.refusedTokens, now);
  app.addHook('onRequest', async ({ ip }) => {
    if (refused.take(ip, 0) === 0) return;
    const text = 'too many rejected tokens from this address; try again later';
    throw new AuthenticationError('ERR_EAUTH_LIMIT', text);
  });
  app.addHook('onResponse', async ({ ip }, { statusCode }) => {
    if (statusCode === 401) refused.take(ip);
  });
}

/**
 * Rejects every request to a stale member of a cluster. Guests, agents and machines with a ticket
 * identify themselves without a token of the master, so this does not depend on tokens.
 */
export function refuseIfStale(app: FastifyInstance, requireCurrent: () => void): void {
  app.addHook('onRequest', async () => requireCurrent());
}

/** Routes of a bridge, for an HTTP server such as that of `createSaltApi`. */
export type BridgePlugin = Required<NonNullable<OpenExtension['routes']>[number]>;

/**
 * Creates the plugin.
 * @param contributions - called when a server is created
 * @param requireCurrent - called before each request; throws at a stale member of a cluster
 */
export function createBridgePlugin(
  contributions: () => readonly Pick<BridgeContribution, 'addRoutes' | 'rpc'>[],
  requireCurrent: () => void,
): BridgePlugin {
  return {
    prefix: '/bridge/v1',
    // Names of the methods on the local socket: `bridge.<name>`.
    methods: () => ({ bridge: Object.assign({}, ...contributions().map(({ rpc }) => rpc)) }),
    register: (app, server) => {
      app.addContentTypeParser('application/json', server.readJson);
      app.setReplySerializer((payload) => writeJson(payload));
      // Schemas of routes are documentation: handlers validate bodies after they know the caller.
      app.setValidatorCompiler(() => () => true);
      app.setSerializerCompiler(() => writeJson);
      refuseIfStale(app, requireCurrent);
      limitRefusedTokens(app);
      app.setErrorHandler((error, { url }, reply) => sendBridgeError(error, reply, url));
      for (const { addRoutes } of contributions()) addRoutes?.(app, server);
    },
  };
}
