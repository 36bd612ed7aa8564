/** HTTP routes below `/bridge/v1`: their common hooks and settings. */

import { hash } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { AuthenticationError, type HttpServerContext, type OpenExtension } from '#master';
import { addressOwner, FairTable, TokenBuckets, writeJson } from '#runtime';
import type { BridgeContribution } from '../bridge-extension.ts';
import { sendBridgeError } from '../http-problems.ts';
import { bridgeLimits } from '../limits.ts';

/** Functions of {@link limitRefusedTokens}. */
interface RefusedTokenOptions {
  readonly tokenOf: HttpServerContext['tokenOf'];
  /** Monotonic clock, in milliseconds. */
  readonly now?: () => number;
}

/**
 * Whether a request belongs to a guest, whose token or signature causes no question to Keystone. The
 * route decides, because a client can write anything into the query of a URL.
 */
function isOfGuest({ routeOptions }: FastifyRequest): boolean {
  return routeOptions.url?.includes('/guest/') === true;
}

/**
 * Rejects requests (429) from an address that has sent too many rejected tokens (401), without
 * reading them. Other addresses are unaffected, and so are tokens that were accepted from the
 * address before, because a proxy may forward the tokens of many tenants. Requests of guests are
 * neither counted nor rejected: the guests behind an agent share its address.
 */
export function limitRefusedTokens(
  app: FastifyInstance,
  { tokenOf, now = () => performance.now() }: RefusedTokenOptions,
): void {
  const refused = new TokenBuckets(bridgeLimits.refusedTokens, now);
  const accepted = new FairTable<true>(bridgeLimits.acceptedTokens);
  const keyOf = (request: FastifyRequest): string => {
    const owner = addressOwner(request.ip);
    return `${owner} ${hash('sha256', tokenOf(request) ?? '')}`;
  };
  app.addHook('onRequest', async (request) => {
    if (isOfGuest(request) || refused.take(addressOwner(request.ip), 0) === 0) return;
    if (accepted.get(keyOf(request)) !== undefined) return;
    const text = 'too many rejected tokens from this address; try again later';
    throw new AuthenticationError('ERR_EAUTH_LIMIT', text);
  });
  app.addHook('onResponse', async (request, { statusCode }) => {
    if (isOfGuest(request)) return;
    const owner = addressOwner(request.ip);
    if (statusCode === 401) {
      accepted.delete(keyOf(request));
      refused.take(owner);
    } else if (statusCode < 400 && tokenOf(request) !== undefined) {
      accepted.trySet(owner, keyOf(request), true);
    }
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
export type BridgePlugin = Required<Omit<NonNullable<OpenExtension['routes']>[number], 'upgrade'>>;

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
    // Set the operation id to the name of the RPC method on the local socket: `bridge.<name>`.
    methods: () => ({ bridge: Object.assign({}, ...contributions().map(({ rpc }) => rpc)) }),
    register: (app, server) => {
      app.addContentTypeParser('application/json', server.readJson);
      app.setReplySerializer((payload) => writeJson(payload));
      // The schemas of routes only document them. Handlers validate a body after they have
      // authenticated the caller.
      app.setValidatorCompiler(() => () => true);
      app.setSerializerCompiler(() => writeJson);
      refuseIfStale(app, requireCurrent);
      limitRefusedTokens(app, server);
      app.setErrorHandler((error, { url }, reply) => sendBridgeError(error, reply, url));
      for (const { addRoutes } of contributions()) addRoutes?.(app, server);
    },
  };
}
