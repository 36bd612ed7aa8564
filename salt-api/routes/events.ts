/** `/events`: server-sent events. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type MasterEvent, missedBySlowReader } from '#master';
import { linkSignals } from '#runtime';
import {
  type ApiContext,
  type Caller,
  requestEndSignal,
  requireSession,
  requireSessionOf,
  resolveCaller,
  streamOwnerOf,
  tokenExpirySignal,
} from '../context.ts';
import { SaltApiError } from '../errors.ts';
import { eventsRequest, queryOf } from '../event-request.ts';
import { sendStreamHead, writeEvents } from '../event-stream.ts';
import { addRoute } from './route.ts';
import { eventsSchema } from './schemas.ts';

const head = {
  'content-type': 'text/event-stream;charset=utf-8',
  'cache-control': 'no-cache',
  connection: 'keep-alive',
} as const;
const keepAliveComment = Buffer.from(': ping\n\n');

export function addEventRoutes(app: FastifyInstance, context: ApiContext): void {
  addRoute(app, '/events', {
    hasHead: false,
    GET: {
      schema: eventsSchema,
      handle: async (request, reply) => {
        const caller = await readerOf(context, request);
        await streamEvents(context, caller, request, reply);
        return reply;
      },
    },
  });
}

/**
 * Returns the caller who reads the stream. Browsers cannot set headers for event streams. On this
 * route only, the token may therefore be in the query.
 */
async function readerOf(context: ApiContext, request: FastifyRequest): Promise<Caller> {
  const token = tokenIn(request, 'token');
  if (token !== undefined) return requireSessionOf(context, token, request.ip);
  const saltToken = tokenIn(request, 'salt_token');
  return saltToken === undefined
    ? requireSession(context, request)
    : resolveCaller(context, saltToken);
}

async function streamEvents(
  context: ApiContext,
  caller: Caller,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const leave = context.streams.enter(streamOwnerOf(caller), request.raw.socket);
  try {
    const end = linkSignals(requestEndSignal(context, reply), tokenExpirySignal(caller)).signal;
    const asked = eventsRequest(queryOf(request.url), request.headers);
    const events = await caller.user.events.subscribeBatches(asked, end);
    sendStreamHead(reply, head);
    const encode = (batch: readonly MasterEvent[]): readonly Buffer[] =>
      context.eventEncoder.serverSent(batch);
    const queue = context.sendPool.open(reply.raw, () => encode([missedBySlowReader()]));
    queue.push(Buffer.from('retry: 400\n'));
    const { flushTimer: pace, log } = context;
    await writeEvents(events, queue, {
      form: { encode, keepAlive: keepAliveComment },
      flushTimer: pace,
      log,
    });
  } finally {
    leave();
  }
}

/**
 * Returns a token in the query.
 * @throws SaltApiError ERR_HTTP_SESSION if the query contains it twice
 */
function tokenIn({ url }: FastifyRequest, name: string): string | undefined {
  const [token, ...more] = queryOf(url).getAll(name);
  if (more.length === 0) return token;
  throw new SaltApiError('ERR_HTTP_SESSION', 'the query contains the token twice');
}
