/** `/events`: server-sent events [CONTRACT 6.1]. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { linkSignals } from '../../master/index.ts';
import {
  type ApiContext,
  type Caller,
  callerOf,
  endOf,
  expiryOf,
  requireSession,
  requireSessionOf,
} from '../context.ts';
import { SaltApiError } from '../errors.ts';
import { writeEvents } from '../event-writer.ts';
import { addResource } from './resource.ts';

const lifeSign = Buffer.from(': ping\n\n');

export function addEventRoutes(app: FastifyInstance, context: ApiContext): void {
  addResource(app, '/events', {
    hasHead: false,
    GET: async (request, reply) => {
      const caller = await readerOf(context, request);
      await streamEvents(context, caller, request, reply);
      return reply;
    },
  });
}

/** Browsers cannot send headers here: tokens may stand in the query, and nowhere else. */
async function readerOf(context: ApiContext, request: FastifyRequest): Promise<Caller> {
  const token = queryOf(request, 'token');
  if (token !== undefined) return requireSessionOf(context, token);
  const saltToken = queryOf(request, 'salt_token');
  return saltToken === undefined ? requireSession(context, request) : callerOf(context, saltToken);
}

async function streamEvents(
  context: ApiContext,
  caller: Caller,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const leave = context.streams.enter(caller.token);
  try {
    const match = queryOf(request, 'match');
    const end = linkSignals(endOf(context, reply), expiryOf(caller)).signal;
    const events = await caller.user.events.subscribe(match === undefined ? {} : { match }, end);
    sendHead(reply);
    // The reply is the stream's from here on: what goes wrong ends it.
    await writeEvents(events, reply.raw, (event) => context.eventTexts.serverSent(event), lifeSign)
      .then(() => reply.raw.end())
      .catch(() => reply.raw.destroy());
  } finally {
    leave();
  }
}

/** Goes out at once, not with the first event. */
function sendHead(reply: FastifyReply): void {
  reply.hijack();
  for (const [name, value] of Object.entries(reply.getHeaders())) {
    if (value !== undefined) reply.raw.setHeader(name, value);
  }
  reply.raw.writeHead(200, {
    'content-type': 'text/event-stream;charset=utf-8',
    'cache-control': 'no-cache',
    connection: 'keep-alive',
  });
  reply.raw.write('retry: 400\n');
}

function queryOf({ query }: FastifyRequest, name: string): string | undefined {
  const value = Object.entries(query ?? {}).find(([key]) => key === name)?.[1];
  if (value === undefined || typeof value === 'string') return value;
  throw new SaltApiError('ERR_HTTP_SESSION', 'given twice');
}
