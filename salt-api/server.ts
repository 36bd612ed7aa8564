/** The HTTP server: fastify with the routes, their limits, and what every answer has. */
import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import fastify, { type FastifyInstance, type FastifyPluginAsync } from 'fastify';
import { version } from '../master/index.ts';
import { secureContextOf, type TlsContents } from './certificate.ts';
import { type ApiContext, tokenFinder } from './context.ts';
import { addCorsHeaders, answerPreflight, isPreflight } from './cors.ts';
import { SaltApiError } from './errors.ts';
import { describeRoutes } from './openapi.ts';
import type { CompleteOptions, SaltApiDoors } from './options.ts';
import { addBodyReception, type ReceiveBody } from './receive-body.ts';
import { sendError } from './replies.ts';
import { addCollectionRoutes } from './routes/collections.ts';
import { addEventRoutes } from './routes/events.ts';
import { addHealthRoutes } from './routes/health.ts';
import { addHookRoutes } from './routes/hook.ts';
import { addLoginRoutes } from './routes/login.ts';
import { addMetricsRoute } from './routes/metrics.ts';
import { addOpenapiRoute } from './routes/openapi.ts';
import { addRootRoutes } from './routes/root.ts';
import { addRpcRoutes } from './routes/rpc.ts';
import { addAppPage, addStaticRoutes } from './routes/static.ts';
import { addStatusRoutes } from './routes/status.ts';

/** Bytes of the head of a request [THREATS A-16]. */
// protection: long-heads
const maxHeaderSize = 16_384;

/** Milliseconds that a connection may be silent between two requests. */
const keepAliveTimeout = 72_000;

/** A server that listens nowhere yet. @param tls - `undefined`: plain HTTP */
export async function createServer(
  context: ApiContext,
  tls: TlsContents | undefined,
): Promise<FastifyInstance> {
  const app = createApp(context.options, tls);
  context.connections.protect(app.server, tls !== undefined);
  app.removeAllContentTypeParsers();
  addBounds(app, context);
  addCommonHeaders(app, context);
  const receiveBody = addBodyReception(app, context);
  await addAppPage(app, context);
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply, context.log));
  app.setNotFoundHandler((request, reply) =>
    sendError(new SaltApiError('ERR_HTTP_UNKNOWN', 'no such path'), request, reply, context.log),
  );
  const document = describeRoutes(app);
  const routes: FastifyPluginAsync = async (scope) => {
    await addRoutes(scope, context);
    addOpenapiRoute(scope, () => document('saltbridge', version));
  };
  await app.register(routes, { prefix: context.options.rootPrefix });
  await addPlugins(app, context, receiveBody);
  await app.ready();
  return app;
}

async function addRoutes(app: FastifyInstance, context: ApiContext): Promise<void> {
  const { statusPage, enableSessions } = context.options;
  const page = statusPage && enableSessions ? addStatusRoutes(app, context) : undefined;
  addRootRoutes(app, context, page);
  addLoginRoutes(app, context);
  addCollectionRoutes(app, context);
  addEventRoutes(app, context);
  addHookRoutes(app, context);
  addHealthRoutes(app, context);
  await addMetricsRoute(app, context);
  addRpcRoutes(app, context);
  await addStaticRoutes(app, context);
}

/** Each in a scope of its own: its parsers and its errors are not Salt's. */
async function addPlugins(
  app: FastifyInstance,
  context: ApiContext,
  receiveBody: ReceiveBody,
): Promise<void> {
  const { plugins, rootPrefix } = context.options;
  const { closing, streams, sendPool } = context;
  const readJson: SaltApiDoors['readJson'] = async (request, payload) => {
    const bytes = await receiveBody(request, payload);
    return bytes.length === 0 ? undefined : await context.bodies.readJson(bytes);
  };
  const doors = { tokenOf: tokenFinder(context), closing, readJson, streams, sendPool };
  for (const plugin of plugins) {
    const routes: FastifyPluginAsync = async (scope) => plugin.register(scope, doors);
    await app.register(routes, { prefix: `${rootPrefix}${plugin.prefix}` });
  }
}

function createApp(
  { maxRequestBodySize, requestTimeoutMs: requestTimeout }: CompleteOptions,
  tls: TlsContents | undefined,
): FastifyInstance {
  const limits = {
    maxHeaderSize,
    // protection: late-bodies
    requestTimeout,
    headersTimeout: Math.min(requestTimeout, 20_000),
    // How often Node looks for those that are late.
    connectionsCheckingInterval: Math.min(requestTimeout, 5000),
    keepAliveTimeout,
  };
  return fastify({
    // protection: large-bodies
    bodyLimit: maxRequestBodySize,
    forceCloseConnections: 'idle',
    logger: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 512 },
    serverFactory: (handler) =>
      tls === undefined
        ? createHttpServer(limits, handler)
        : createHttpsServer({ ...limits, ...secureContextOf(tls) }, handler),
  });
}

/** Before the body of a request is read, before it is worked on, and before it is answered. */
function addBounds(app: FastifyInstance, { connections, options }: ApiContext): void {
  app.addHook('preParsing', (request, reply, body, done) => {
    try {
      done(null, connections.meter(request.raw, reply.raw, body));
    } catch (error) {
      done(error instanceof Error ? error : new Error(String(error)));
    }
  });
  app.addHook('preHandler', (request, reply, done) => {
    connections.begin(request.raw, reply.raw);
    done();
  });
  app.addHook('onSend', (request, _reply, _answer, done) => {
    // protection: unread-answers
    request.raw.socket.setTimeout(options.requestTimeoutMs);
    done();
  });
}

function addCommonHeaders(app: FastifyInstance, { options, door, log }: ApiContext): void {
  app.addHook('onRequest', async (request, reply) => {
    door(request.raw);
    const isListed = addCorsHeaders(request, reply, options.corsOrigin);
    // protection: sniffed-answers
    reply.header('x-content-type-options', 'nosniff');
    reply.header('x-frame-options', 'DENY');
    reply.header('referrer-policy', 'same-origin');
    if (isPreflight(request)) return answerPreflight(reply, isListed);
    const { 'content-encoding': encoding = 'identity' } = request.headers;
    // What is compressed says nothing of its size.
    // protection: compressed-bodies
    if (encoding !== 'identity') throw new SaltApiError('ERR_HTTP_FORMAT', 'a compressed body');
    return undefined;
  });
  app.addHook('onResponse', async (request, reply) => {
    // Without the query: tokens may stand there.
    const [path] = request.url.split('?');
    const { method, ip: remote } = request;
    const durationMs = Math.round(reply.elapsedTime);
    log.debug({ method, path, remote, status: reply.statusCode, durationMs }, 'http request');
  });
}
