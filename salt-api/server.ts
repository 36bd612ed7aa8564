/**
 * The HTTP server: fastify with the routes, their limits, and everything that all responses have in
 * common.
 */

import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import cors from '@fastify/cors';
import fastify, {
  type FastifyInstance,
  type FastifyPluginAsync,
  type FastifyRequest,
} from 'fastify';
import { version } from '#master';
import { secureContextOf, type TlsContents } from './certificate.ts';
import { type ApiContext, tokenFinder } from './context.ts';
import { sendError } from './error-answer.ts';
import { SaltApiError } from './errors.ts';
import type { CompleteOptions, SaltApiPluginContext } from './options.ts';
import { addStatusRoutes } from './page/routes.ts';
import { addBodyReception, type ReceiveBody } from './receive-body.ts';
import { addCollectionRoutes } from './routes/collections.ts';
import { addEventRoutes } from './routes/events.ts';
import { addHealthRoutes } from './routes/health.ts';
import { addHookRoutes } from './routes/hook.ts';
import { addLoginRoutes } from './routes/login.ts';
import { addMetricsRoute } from './routes/metrics.ts';
import { addOpenapiRoute, collectSchemas } from './routes/openapi.ts';
import { addRootRoutes } from './routes/root.ts';
import { leaveValidationToHandlers } from './routes/route.ts';
import { addRpcRoutes } from './routes/rpc.ts';
import { addAppPage, addFileSending, addStaticRoutes } from './routes/static.ts';

/**
 * Allows pages of the listed origins to read responses [THREATS A-15]. Origins are compared
 * exactly.
 */
async function addCors(app: FastifyInstance, origins: readonly string[]): Promise<void> {
  if (origins.length === 0) return;
  await app.register(cors, {
    origin: (origin, done) => done(null, origins.find((listed) => listed === origin) ?? false),
    credentials: true,
    methods: ['GET', 'POST'],
    allowedHeaders: ['Content-Type', 'X-Auth-Token', 'X-Requested-With'],
    exposedHeaders: ['GET', 'POST'],
    maxAge: 1400,
    optionsSuccessStatus: 200,
    strictPreflight: false,
  });
}

/** Whether the request is a CORS preflight. Browsers send it to ask for permission. */
function isPreflight({ method, headers }: FastifyRequest): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
}

/**
 * Matches the last part of a WebSocket path, which can be a session token. The log shows `…` in
 * place of this part.
 */
const tokenInPath = /(\/ws\/).*/;

/** Maximum size of the head of a request, in bytes [THREATS A-16]. */
const maxHeaderSize = 16_384;

/** Maximum idle time of a connection between two requests, in milliseconds. */
const keepAliveTimeout = 72_000;

/**
 * Creates the server. It does not listen yet.
 * @param tls - contents of the TLS files; `undefined`: plain HTTP
 */
export async function createServer(
  context: ApiContext,
  tls: TlsContents | undefined,
): Promise<FastifyInstance> {
  const app = createApp(context.options, tls);
  context.connections.protect(app.server);
  app.removeAllContentTypeParsers();
  addBounds(app, context);
  addCallGate(app, context);
  await addCommonHeaders(app, context);
  await addFileSending(app, context);
  const receiveBody = addBodyReception(app, context);
  await addAppPage(app, context);
  app.setErrorHandler((error, request, reply) => sendError(error, request, reply, context.log));
  app.setNotFoundHandler((request, reply) =>
    sendError(new SaltApiError('ERR_HTTP_UNKNOWN', 'path not found'), request, reply, context.log),
  );
  await collectSchemas(app, { title: 'saltbridge', version });
  const routes: FastifyPluginAsync = async (scope) => {
    leaveValidationToHandlers(scope);
    await addRoutes(scope, context);
    addOpenapiRoute(scope);
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

/**
 * Adds plugins. Each has its own parsers and error handler, which do not affect the other routes.
 */
async function addPlugins(
  app: FastifyInstance,
  context: ApiContext,
  receiveBody: ReceiveBody,
): Promise<void> {
  const { plugins, rootPrefix } = context.options;
  const { closing, streams, sendPool } = context;
  const readJson: SaltApiPluginContext['readJson'] = async (request, payload) => {
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
    requestTimeout,
    headersTimeout: Math.min(requestTimeout, 20_000),
    // Node.js checks for requests that arrive too slowly at this interval.
    connectionsCheckingInterval: Math.min(requestTimeout, 5000),
    keepAliveTimeout,
  };
  return fastify({
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

/** Routes that are served while the master is being drained, because they start no work. */
const ungatedRoutes: ReadonlySet<string> = new Set(['/login', '/logout']);

/** Rejects requests that would start work while the master is being drained. */
function addCallGate(app: FastifyInstance, { master, options }: ApiContext): void {
  app.addHook('preHandler', (request, reply, done) => {
    const { method, routeOptions } = request;
    const route = routeOptions.url?.slice(options.rootPrefix.length) ?? '';
    const isUngated = ungatedRoutes.has(route) || route.startsWith('/rpc/');
    if (method === 'GET' || method === 'HEAD' || isUngated) {
      done();
      return;
    }
    try {
      const leave = master.calls?.enter();
      if (leave !== undefined) reply.raw.once('close', leave);
      done();
    } catch (error) {
      done(error instanceof Error ? error : new Error(String(error)));
    }
  });
}

/**
 * Enforces limits in three steps: before the body of a request is read, before the request is
 * handled, and before it is answered.
 */
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
    request.raw.socket.setTimeout(options.requestTimeoutMs);
    done();
  });
}

async function addCommonHeaders(
  app: FastifyInstance,
  { options, hostGuard: checkHost, log }: ApiContext,
): Promise<void> {
  app.addHook('onRequest', async (request, reply) => {
    checkHost(request.raw);
    reply.header('x-content-type-options', 'nosniff');
    reply.header('x-frame-options', 'DENY');
    reply.header('referrer-policy', 'same-origin');
  });
  await addCors(app, options.corsOrigin);
  app.addHook('onRequest', async (request, reply) => {
    // The origin is not listed. With this response, the browser does not permit anything.
    if (isPreflight(request)) return reply.code(200).send('');
    const { 'content-encoding': encoding = 'identity' } = request.headers;
    // The size of the body after decompression is unknown.
    if (encoding !== 'identity')
      throw new SaltApiError('ERR_HTTP_FORMAT', 'compressed bodies are not supported');
    return undefined;
  });
  app.addHook('onResponse', async (request, reply) => {
    // The query and the end of the path of WebSocket are left out, because they may contain tokens.
    const [path = ''] = request.url.split('?');
    const { method, ip: remote } = request;
    const durationMs = Math.round(reply.elapsedTime);
    log.debug(
      {
        method,
        path: path.replace(tokenInPath, '$1…'),
        remote,
        status: reply.statusCode,
        durationMs,
      },
      'http request',
    );
  });
}
