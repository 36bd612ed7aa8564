/** `/rpc/<method>`: the master's interface for `saltbridge/client`, over the network. */
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteHandlerMethod } from 'fastify';
import {
  type AuditRequester,
  coreMethods,
  failCall,
  namedMethods,
  parseParameters,
  refuseMethod,
  rpcMethods,
  type ServedCall,
  serveCall,
} from '#master';
import { isWireMap, type WireMap } from '#minion-protocol';
import { type ApiContext, bytesOf, requestEndSignal, requireSessionOf } from '../context.ts';
import { SaltApiError } from '../errors.ts';
import { bearerOf } from '../session-token.ts';
import { addRoute } from './route.ts';
import { rpcSchemas } from './schemas.ts';

/** Streams that may be silent for long; those of jobs end with the job. */
const longStreams: ReadonlySet<string> = new Set(['events.subscribe', 'logins.follow']);

/** Bytes of a call of whoever is nobody yet. */
const maxOpenBytes = 8192;

/** Levels of parameters, some of which are marks. */
const maxDepth = 64;

export function addRpcRoutes(app: FastifyInstance, context: ApiContext): void {
  const more = context.options.plugins.map(({ methods }) => namedMethods(methods?.() ?? {}));
  const core = coreMethodsOf(context);
  const served = new Map([...core, ...more.flatMap((methods) => [...methods])]);
  const handle: RouteHandlerMethod = async (request, reply) => {
    const end = requestEndSignal(context, reply);
    takeOver(reply);
    const name = nameOf(request);
    const method = served.get(name);
    const { raw: response } = reply;
    if (method === undefined) refuseMethod(response, name);
    else {
      const { master: api, log, sendPool, bodies: steps } = context;
      const { calls } = api;
      const call = { name, method, api, calls, response, log, steps, sendPool };
      let leave = (): void => {};
      try {
        const { parameters, by } = await permitted(context, call, request);
        const { token } = parameters;
        if (longStreams.has(name)) {
          leave = context.streams.enter(typeof token === 'string' ? token : '');
        }
        const more = by === undefined ? {} : { by };
        await serveCall({ ...call, parameters, signal: end, ...more });
      } catch (error) {
        failCall(call, error);
      } finally {
        leave();
      }
    }
    return reply;
  };
  // Each method has a schema of its own; what is unknown or for the host alone is refused alike.
  for (const [name, schema] of rpcSchemas(core)) app.post(`/rpc/${name}`, { schema }, handle);
  addRoute(app, '/rpc/:method', { POST: { schema: { hide: true }, handle } });
}

/** The methods that the master has without its extensions' own. */
function coreMethodsOf({ options: { extensionHost } }: ApiContext): typeof rpcMethods {
  return extensionHost === undefined ? rpcMethods : coreMethods((key) => extensionHost.find(key));
}

/** The answer is written by what all doors of the interface have in common. */
function takeOver(reply: FastifyReply): void {
  reply.hijack();
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value);
  }
  reply.raw.setHeader('cache-control', 'no-store');
}

/**
 * The parameters, as whoever asks may give them, and who that is where it takes everything. A token
 * of a request is heard in its headers alone, never in a cookie: no page of another site has one.
 * @throws AuthenticationError, AuthorizationError, MasterError ERR_ARGS, SaltApiError
 */
async function permitted(
  context: ApiContext,
  { name, method: { access } }: Pick<ServedCall, 'name' | 'method'>,
  request: FastifyRequest,
): Promise<{ readonly parameters: WireMap; readonly by?: AuditRequester }> {
  if (access === 'host') throw new SaltApiError('ERR_HTTP_UNKNOWN', `${name}: only on its host`);
  const parameters = await parametersOf(context, request, access === 'anybody');
  if (name === 'logins.login') return { parameters: { ...parameters, source: request.ip } };
  if (access === 'anybody') return { parameters };
  const token = parameters.token ?? (await tokenOf(context, request));
  if (typeof token !== 'string') {
    throw new SaltApiError('ERR_HTTP_BODY', 'token: expected a text');
  }
  if (access === 'user') return { parameters: { ...parameters, token } };
  const by = await context.master.asUser(token).requireFullRights(name);
  return { parameters, by };
}

async function parametersOf(
  { bodies, options }: ApiContext,
  request: FastifyRequest,
  isOpen: boolean,
): Promise<WireMap> {
  const bytes = bytesOf(request);
  const size = bytes.reduce((sum, { byteLength }) => sum + byteLength, 0);
  if (isOpen && size > maxOpenBytes) {
    const message = `expected parameters of at most ${maxOpenBytes} bytes`;
    throw new SaltApiError('ERR_HTTP_BODY', message, { status: 413 });
  }
  const limits = { maxValues: options.maxRequestBodyValues, maxDepth };
  const parameters = await parseParameters(bytes, bodies, limits);
  if (!isWireMap(parameters)) throw new SaltApiError('ERR_HTTP_BODY', 'expected a map');
  return parameters;
}

/** Salt's token, or that of a session. @throws SaltApiError ERR_HTTP_SESSION */
async function tokenOf(context: ApiContext, { headers }: FastifyRequest): Promise<string> {
  const bearer = bearerOf(headers);
  if (bearer !== undefined) return bearer;
  const session = headers['x-auth-token'];
  return (await requireSessionOf(context, typeof session === 'string' ? session : undefined)).token;
}

/** The last part of the path: routes of methods with a schema have no parameter. */
function nameOf({ params, routeOptions }: FastifyRequest): string {
  const [, name = ''] = /\/rpc\/([^/:]+)$/.exec(routeOptions.url ?? '') ?? [];
  return String(Object.entries(params ?? {}).find(([key]) => key === 'method')?.[1] ?? name);
}
