/** `/rpc/<method>`, the master's interface over the network, for `saltbridge/client`. */
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify';
import {
  type AuditRequester,
  CallServer,
  coreMethods,
  type RpcMethod,
  requesterName,
} from '#master';
import { isWireMap, type WireMap } from '#minion-protocol';
import { AnswerBytes } from '../answer-bytes.ts';
import { requireClient } from '../clients.ts';
import {
  type ApiContext,
  bytesOf,
  requestEndSignal,
  requireSessionOf,
  resolveCaller,
  streamOwnerOf,
} from '../context.ts';
import { SaltApiError } from '../errors.ts';
import type { StreamOwner } from '../event-stream.ts';
import { unreadMs } from '../limits.ts';
import { bearerOf } from '../session-token.ts';
import { addRoute } from './route.ts';
import { rpcSchemas } from './schemas.ts';

/**
 * Methods whose streams do not count towards the limit of event streams. The limit
 * `users.jobStreams` counts them.
 */
const jobStreams: ReadonlySet<string> = new Set(['jobs.batch', 'jobs.follow', 'jobs.run']);

/**
 * Clients of Salt's API that call the same functions as a method. If a client is not served, its
 * methods are not served either.
 */
const clientsOfMethods: ReadonlyMap<string, string> = new Map([
  ['jobs.publish', 'local_async'],
  ['jobs.run', 'local'],
  ['jobs.batch', 'local_batch'],
  ['runners.run', 'runner'],
  ['runners.start', 'runner_async'],
  ['wheel.run', 'wheel'],
  ['wheel.start', 'wheel_async'],
  ['keys.create', 'wheel'],
]);

/** Maximum size of a call for which no authentication is needed, in bytes. */
const maxOpenBytes = 8192;

/**
 * Maximum nesting depth of parameters. The encoding of special values adds levels, which are
 * counted too.
 */
const maxDepth = 64;

export function addRpcRoutes(app: FastifyInstance, context: ApiContext): void {
  const { master: api, log, sendPool, bodies: steps, options } = context;
  const { extensionHost: host } = options;
  const methods = coreMethods(host && ((key) => host.find(key)));
  const more = options.plugins.map((plugin) => plugin.methods?.() ?? {});
  const { calls } = api;
  const stallMs = unreadMs;
  const server = new CallServer({ methods, more, api, calls, log, steps, sendPool, stallMs });
  const handle: RouteHandlerMethod = async (request, reply) => {
    const signal = requestEndSignal(context, reply);
    takeOver(reply);
    const name = nameOf(request);
    const call = { name, response: reply.raw, signal };
    await server.serve(call, async ({ access, isStream }) => {
      const input = await permitted({ context, server, name, access }, request);
      const owner = (): Promise<StreamOwner> => readerOf(context, input);
      if (isStream) {
        if (jobStreams.has(name)) return input;
        const leave = context.streams.enter(await owner(), request.raw.socket);
        return { ...input, leave };
      }
      const held = new AnswerBytes(context.answerBudget);
      const hold = async (): Promise<(bytes: number) => void> => {
        const { user } = await owner();
        return (bytes) => held.takeBytes(user, bytes);
      };
      return { ...input, hold, leave: () => held.release() };
    });
    return reply;
  };
  // Each method has its own schema. Calls of unknown methods and of methods for the host only get
  // the same error.
  for (const [name, schema] of rpcSchemas(methods)) app.post(`/rpc/${name}`, { schema }, handle);
  addRoute(app, '/rpc/:method', { POST: { schema: { hide: true }, handle } });
}

/**
 * Detaches a response from fastify, because {@link CallServer} writes it. Keeps the headers that
 * fastify has set, and forbids caching.
 */
function takeOver(reply: FastifyReply): void {
  reply.hijack();
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value);
  }
  reply.raw.setHeader('cache-control', 'no-store');
}

/** A call whose parameters have not been parsed yet. */
interface AskedCall extends Pick<RpcMethod, 'access'> {
  readonly context: ApiContext;
  readonly server: CallServer;
  readonly name: string;
}

/**
 * Checks that the caller may call a method, and returns the parameters of the call. For a method
 * for users, the returned parameters contain the caller's token. The token comes from the given
 * parameters or from a header. It never comes from a cookie, because a page of another site can
 * cause a browser to send a cookie.
 * @throws AuthenticationError, AuthorizationError, MasterError ERR_ARGS, SaltApiError
 */
async function permitted(
  { context, server, name, access }: AskedCall,
  request: FastifyRequest,
): Promise<{ readonly parameters: WireMap; readonly by?: AuditRequester }> {
  if (access === 'host')
    throw new SaltApiError(
      'ERR_HTTP_UNKNOWN',
      `${name}: this method is only available on the master's host`,
    );
  const parameters = await parametersOf({ context, server }, request, access === 'anybody');
  if (name === 'logins.login') return { parameters: { ...parameters, source: request.ip } };
  if (access === 'anybody') return { parameters };
  const token = parameters.token ?? (await tokenOf(context, request));
  if (typeof token !== 'string') {
    throw new SaltApiError('ERR_HTTP_BODY', 'token: must be a text');
  }
  const client = clientsOfMethods.get(name);
  if (client !== undefined) requireClient(context, client);
  if (access === 'user') {
    // Methods of the bridge would also accept tokens of Keystone, but only routes of the bridge
    // limit how many unknown tokens of an address are validated.
    await context.master.logins.identify(token);
    return { parameters: { ...parameters, token } };
  }
  const by = await context.master.asUser(token).requireFullRights(name);
  return { parameters, by };
}

/**
 * Returns the token and the user of a call. The streams and the results of the call count towards
 * their limits.
 * @throws AuthenticationError
 */
async function readerOf(
  context: ApiContext,
  { parameters, by }: { readonly parameters: WireMap; readonly by?: AuditRequester },
): Promise<StreamOwner> {
  if (by !== undefined) return { user: requesterName(by.who), token: requesterName(by.who) };
  const token = typeof parameters.token === 'string' ? parameters.token : '';
  return streamOwnerOf(await resolveCaller(context, token));
}

async function parametersOf(
  { context: { options }, server }: Pick<AskedCall, 'context' | 'server'>,
  request: FastifyRequest,
  isOpen: boolean,
): Promise<WireMap> {
  const bytes = bytesOf(request);
  const size = bytes.reduce((sum, { byteLength }) => sum + byteLength, 0);
  if (isOpen && size > maxOpenBytes) {
    const message = `the parameters are too large; the maximum is ${maxOpenBytes} bytes`;
    throw new SaltApiError('ERR_HTTP_BODY', message, { status: 413 });
  }
  const limits = { maxValues: options.maxRequestBodyValues, maxDepth };
  const parameters = await server.parseParameters(bytes, limits);
  if (!isWireMap(parameters)) throw new SaltApiError('ERR_HTTP_BODY', 'the body must be a map');
  return parameters;
}

/**
 * Returns the token of the master that a request contains in `Authorization`. If this header is
 * missing, `X-Auth-Token` must contain a session token. The function then returns the token with
 * which the session's user is logged in at the master.
 * @throws SaltApiError ERR_HTTP_SESSION
 */
async function tokenOf(context: ApiContext, { headers, ip }: FastifyRequest): Promise<string> {
  const bearer = bearerOf(headers);
  if (bearer !== undefined) return bearer;
  const session = headers['x-auth-token'];
  const sessionToken = typeof session === 'string' ? session : undefined;
  return (await requireSessionOf(context, sessionToken, ip)).token;
}

/**
 * Returns the name of the RPC method, which is the last part of the path. If the method has its own
 * schema, its route contains this name instead of a path parameter.
 */
function nameOf({ params, routeOptions }: FastifyRequest): string {
  const [, name = ''] = /\/rpc\/([^/:]+)$/.exec(routeOptions.url ?? '') ?? [];
  return String(Object.entries(params ?? {}).find(([key]) => key === 'method')?.[1] ?? name);
}
