/** `/bridge/v1` over HTTP: what all its routes have. */

import type { FastifyInstance } from 'fastify';
import { AuthenticationError, type OpenExtension } from '#master';
import { TokenBuckets, writeJson } from '#runtime';
import type { BridgeContribution } from '../bridge-extension.ts';
import { sendBridgeError } from '../http-problems.ts';

/** Refused tokens from one address. Each may cost a request to Keystone [THREATS A-04]. */
const refusedTokenRate = { perSecond: 20, burst: 100 };

/**
 * Refuses requests (429) from an address that has shown too many tokens which were refused (401);
 * nothing of them is looked at. Other addresses are as they were.
 * @param now - milliseconds of a clock that only goes forward
 */
export function limitRefusedTokens(
  app: FastifyInstance,
  now: () => number = () => performance.now(),
): void {
  const refused = new TokenBuckets(refusedTokenRate, now);
  app.addHook('onRequest', async ({ ip }) => {
    if (refused.take(ip, 0) === 0) return;
    const text = 'too many tokens from this address were refused; try again later';
    throw new AuthenticationError('ERR_EAUTH_LIMIT', text);
  });
  app.addHook('onResponse', async ({ ip }, { statusCode }) => {
    if (statusCode === 401) refused.take(ip);
  });
}

/** The routes of a bridge, for an HTTP server such as that of `createSaltApi`. */
export type BridgePlugin = Required<NonNullable<OpenExtension['routes']>[number]>;

/** @param contributions - called when a server is created */
export function createBridgePlugin(
  contributions: () => readonly Pick<BridgeContribution, 'addRoutes' | 'rpc'>[],
): BridgePlugin {
  return {
    prefix: '/bridge/v1',
    // As at the local socket: `bridge.<name>`.
    methods: () => ({ bridge: Object.assign({}, ...contributions().map(({ rpc }) => rpc)) }),
    register: (app, server) => {
      app.addContentTypeParser('application/json', server.readJson);
      app.setReplySerializer((payload) => writeJson(payload));
      // Schemas of routes are documentation: handlers validate bodies after they know the caller.
      app.setValidatorCompiler(() => () => true);
      app.setSerializerCompiler(() => writeJson);
      limitRefusedTokens(app);
      app.setErrorHandler((error, { url }, reply) => sendBridgeError(error, reply, url));
      for (const { addRoutes } of contributions()) addRoutes?.(app, server);
    },
  };
}
