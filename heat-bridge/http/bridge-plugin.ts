/** HTTP routes below `/bridge/v1`: their common hooks and settings. */

import { hash } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { AuthenticationError, type HttpServerContext, type OpenExtension } from '#master';
import { addressOwner, FairTable, TokenBuckets, writeJson } from '#runtime';
import type { BridgeContribution } from '../bridge-extension.ts';
import { sendBridgeError } from '../http-problems.ts';
import { bridgeLimits } from '../limits.ts';
import { writeAnswersInSteps } from './written-answers.ts';

/** Options of the limit on invalid tokens. */
interface RefusedTokenOptions {
  readonly tokenOf: HttpServerContext['tokenOf'];
  /** Returns the time of a monotonic clock, in milliseconds. */
  readonly now?: () => number;
}

/**
 * Whether a request goes to a route for guests (enrolled machines). Credentials of guests are
 * checked without Keystone. Only the path in the route's definition is considered, because clients
 * can choose the query of the URL.
 */
function isOfGuest({ routeOptions }: FastifyRequest): boolean {
  return routeOptions.url?.includes('/guest/') === true;
}

/**
 * Limits invalid tokens. After too many of them from an address, rejects further requests from the
 * address with the status 429, before their bodies are read. Tokens from the address that were
 * accepted before are still accepted, because a proxy may forward the tokens of many tenants.
 * Requests of guests are neither counted nor rejected, because all guests behind an agent have its
 * address.
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
 * Rejects every request to a stale member of a cluster, because this member may not know that a
 * credential was revoked.
 */
export function refuseIfStale(app: FastifyInstance, requireCurrent: () => void): void {
  app.addHook('onRequest', async () => requireCurrent());
}

/** Routes of a bridge, for an HTTP server such as that of `createSaltApi`. */
export type BridgePlugin = Required<Omit<NonNullable<OpenExtension['routes']>[number], 'upgrade'>>;

/**
 * Creates the plugin with the routes of the bridge.
 * @param contributions - returns the routes and RPC methods of the bridge's extensions; called when
 * an HTTP server is created
 * @param requireCurrent - called before each request; throws if this cluster member is stale
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
      const holdAnswer = writeAnswersInSteps(app, server);
      // Schemas of routes only document them. Handlers authenticate the caller before they validate
      // the body.
      app.setValidatorCompiler(() => () => true);
      app.setSerializerCompiler(() => writeJson);
      refuseIfStale(app, requireCurrent);
      limitRefusedTokens(app, server);
      app.setErrorHandler((error, { url }, reply) => sendBridgeError(error, reply, url));
      for (const { addRoutes } of contributions()) addRoutes?.(app, { ...server, holdAnswer });
    },
  };
}
