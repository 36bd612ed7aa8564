/** The HTTP server: fastify with the routes, their limits, and what every answer has. */

import { createServer as createHttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import cors from '@fastify/cors';
import fastify, {
  type FastifyInstance,
  type FastifyPluginAsync,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify';
import type { Logger } from 'pino';
import { version } from '#master';
import { secureContextOf, type TlsContents } from './certificate.ts';
import { type ApiContext, sendAnswer, tokenFinder } from './context.ts';
import { SaltApiError } from './errors.ts';
import type { CompleteOptions, SaltApiPluginContext } from './options.ts';
import { addStatusRoutes } from './page/routes.ts';
import { addBodyReception, type ReceiveBody } from './receive-body.ts';
import { addCollectionRoutes } from './routes/collections.ts';
import { addEventRoutes } from './routes/events.ts';
import { addHookRoutes } from './routes/hook.ts';
import { addLoginRoutes } from './routes/login.ts';
import { addMetricsRoute } from './routes/metrics.ts';
import { healthOperation, openapiOperation } from './routes/operations.ts';
import { addRootRoutes } from './routes/root.ts';
import { addRoute, describeRoutes } from './routes/route.ts';
import { addRpcRoutes } from './routes/rpc.ts';
import { addAppPage, addFileSending, addStaticRoutes } from './routes/static.ts';

/** Permits pages of listed origins, compared exactly, to read answers [THREATS A-15]. */
async function addCors(app: FastifyInstance, origins: readonly string[]): Promise<void> {
  if (origins.length === 0) return;
  await app.register(cors, {
    // protection: any-origin
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

/** Whether a browser asks for permission before a request. */
function isPreflight({ method, headers }: FastifyRequest): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
}

// Errors: status, code and, for a malformed request, what was expected [THREATS A-21].

/** Status by code, for errors of other rooms; whatever is not here is an unexpected one. */
const statuses: ReadonlyMap<string, number> = new Map([
  ['ERR_ARGS', 400],
  ['ERR_BAD_TGT', 400],
  ['ERR_CLUSTER_ALONE', 503],
  ['ERR_DENIED', 401],
  ['ERR_EAUTH', 401],
  ['ERR_EAUTH_LIMIT', 429],
  ['ERR_EAUTH_TOKEN', 401],
  ['ERR_EAUTH_UNAVAILABLE', 503],
  ['ERR_JOB_LIMIT', 503],
  ['ERR_KEY_ID', 400],
  ['ERR_KEY_STATE', 409],
  ['ERR_MASTER_DRAINING', 503],
  ['ERR_MASTER_STOPPED', 503],
  // As clients know it.
  ['ERR_NODEGROUP_UNKNOWN', 500],
  ['ERR_SOCKET', 503],
  ['ERR_STORE_FULL', 503],
  ['ERR_STORE_UNAVAILABLE', 503],
]);

/** Errors of HTTP itself, which fastify finds. */
const fastifyCodes: ReadonlyMap<string, string> = new Map([
  ['FST_ERR_CTP_BODY_TOO_LARGE', 'ERR_HTTP_BODY'],
  ['FST_ERR_CTP_INVALID_CONTENT_LENGTH', 'ERR_HTTP_BODY'],
]);

/** Answers a request that failed. */
function sendError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  log: Logger,
): FastifyReply {
  const { status, code, message } = toErrorAnswer(error);
  const fields = { err: error, reference: request.id, status };
  if (code === 'ERR_INTERNAL') log.error(fields, 'http request failed');
  else log.debug(fields, 'http request refused');
  // protection: sessions-for-nobody
  reply.code(status).header('x-request-id', request.id);
  if (status === 503) reply.header('retry-after', '1');
  // What is left of the body is not read.
  if (status === 413 || code === 'ERR_HTTP_BUSY') reply.header('connection', 'close');
  // As Salt has it, and clients show it.
  // protection: talking-errors
  if (status === 500) return sendJson(reply, { status, return: 'An unexpected error occurred' });
  // What was wrong with a token, or a right, is nobody's business.
  // protection: talking-refusals
  if (status === 401) return sendJson(reply, { status, error: 'ERR_HTTP_SESSION' });
  return sendJson(reply, { status, error: code, ...(message === undefined ? {} : { message }) });
}

/** Statuses of requests that whoever sent them has to change. */
const explained: ReadonlySet<number> = new Set([400, 406, 413]);

interface ErrorAnswer {
  readonly status: number;
  readonly code: string;
  readonly message?: string;
}

function toErrorAnswer(error: unknown): ErrorAnswer {
  const unexpected = { status: 500, code: 'ERR_INTERNAL' };
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') {
    return unexpected;
  }
  const { code } = error;
  const known =
    'status' in error && typeof error.status === 'number' ? error.status : statuses.get(code);
  if (known !== undefined) {
    return { status: known, code, ...(explained.has(known) ? { message: error.message } : {}) };
  }
  const status = 'statusCode' in error ? Number(error.statusCode) : 500;
  const isRefusal = code.startsWith('FST_') && status >= 400 && status < 500;
  return isRefusal ? { status, code: fastifyCodes.get(code) ?? 'ERR_HTTP_UNKNOWN' } : unexpected;
}

function sendJson(reply: FastifyReply, body: object): FastifyReply {
  return reply.type('application/json').send(JSON.stringify(body));
}

// `/health` and `/ready`, for load balancers; they reveal nothing of the master.

function addHealthRoutes(app: FastifyInstance, context: ApiContext): void {
  const { master, closing } = context;
  addRoute(app, '/health', {
    GET: {
      about: healthOperation,
      handle: (request, reply) => sendAnswer(context, request, reply, { status: 'ok' }),
    },
  });
  addRoute(app, '/ready', {
    GET: {
      about: healthOperation,
      handle: async (request, reply) => {
        const isReady = !closing.aborted && (await isServing(master));
        if (!isReady) reply.code(503);
        return sendAnswer(context, request, reply, { status: isReady ? 'ready' : 'not ready' });
      },
    },
  });
}

/** Whether the master runs, and can keep what minions return. */
async function isServing(
  master: Parameters<typeof addHealthRoutes>[1]['master'],
): Promise<boolean> {
  try {
    const { storeFull, cluster } = await master.status();
    return !storeFull && cluster?.refusesWrites !== true && cluster?.isDraining !== true;
  } catch {
    return false;
  }
}

// `/openapi.json`: what the API is, for programs.

/** @param document made once, when all routes are there */
function addOpenapiRoute(app: FastifyInstance, document: () => unknown): void {
  let text: string | undefined;
  addRoute(app, '/openapi.json', {
    GET: {
      about: openapiOperation,
      handle: (_request, reply) => {
        text ??= JSON.stringify(document());
        return reply.type('application/json').send(text);
      },
    },
  });
}

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
  addCallGate(app, context);
  await addCommonHeaders(app, context);
  await addFileSending(app);
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

/** What a request begins nothing by, and what is counted by its method. */
const ungatedRoutes: ReadonlySet<string> = new Set(['/login', '/logout', '/rpc/:method']);

/** While the master is drained, requests that would begin something are refused. */
function addCallGate(app: FastifyInstance, { master, options }: ApiContext): void {
  app.addHook('preHandler', (request, reply, done) => {
    const { method, routeOptions } = request;
    const route = routeOptions.url?.slice(options.rootPrefix.length) ?? '';
    if (method === 'GET' || method === 'HEAD' || ungatedRoutes.has(route)) {
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

async function addCommonHeaders(
  app: FastifyInstance,
  { options, hostGuard: door, log }: ApiContext,
): Promise<void> {
  app.addHook('onRequest', async (request, reply) => {
    door(request.raw);
    // protection: sniffed-answers
    reply.header('x-content-type-options', 'nosniff');
    reply.header('x-frame-options', 'DENY');
    reply.header('referrer-policy', 'same-origin');
  });
  await addCors(app, options.corsOrigin);
  app.addHook('onRequest', async (request, reply) => {
    // The origin is not listed. The browser permits nothing after this answer.
    // protection: sessions-by-preflight
    if (isPreflight(request)) return reply.code(200).send('');
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
