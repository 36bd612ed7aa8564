/** `/bridge/v1` over HTTP: what all its routes have. */

import type { FastifyInstance } from 'fastify';
import { AuthenticationError, type RpcTable, TokenBuckets } from '#master';
import { writeJson } from '#runtime';
import type { BridgeModule } from '../bridge-module.ts';
import { sendBridgeError } from '../http-problems.ts';
import type { HttpServerContext } from './http-server-context.ts';

// Limit of refused tokens by address: each may cost a request to Keystone [THREATS A-04].

/** Those beyond it wait until they would be permitted again. */
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
    // protection: refused-tokens
    if (statusCode === 401) refused.take(ip);
  });
}

/** Where the routes are, for an HTTP server such as salt-api's. */
export interface BridgePlugin {
  readonly prefix: string;
  /** As at the local socket: `bridge.<name>`. */
  methods(): RpcTable;
  register(app: FastifyInstance, doors: HttpServerContext): void;
}

/** @param parts - asked when a server is made */
export function createBridgePlugin(parts: () => readonly BridgeModule<unknown>[]): BridgePlugin {
  return {
    prefix: '/bridge/v1',
    methods: () => ({ bridge: Object.assign({}, ...parts().map(({ rpc }) => rpc)) }),
    register: (app, doors) => {
      app.addContentTypeParser('application/json', doors.readJson);
      app.setReplySerializer((payload) => writeJson(payload));
      // Schemas of routes are documentation: handlers validate bodies after they know the caller.
      app.setValidatorCompiler(() => () => true);
      app.setSerializerCompiler(() => writeJson);
      limitRefusedTokens(app);
      app.setErrorHandler((error, { url }, reply) => sendBridgeError(error, reply, url));
      for (const { routes } of parts()) routes?.(app, doors);
    },
  };
}
