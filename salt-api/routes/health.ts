/** `/health` and `/ready`, for load balancers. They reveal no details about the master. */

import type { FastifyInstance } from 'fastify';
import { isServingMember } from '#master';
import { type ApiContext, sendAnswer } from '../context.ts';
import { addRoute } from './route.ts';
import { healthSchema } from './schemas.ts';

/** Adds `/health` and `/ready`. */
export function addHealthRoutes(app: FastifyInstance, context: ApiContext): void {
  const { master, closing } = context;
  addRoute(app, '/health', {
    GET: {
      schema: healthSchema,
      handle: (request, reply) => sendAnswer(context, request, reply, { status: 'ok' }),
    },
  });
  addRoute(app, '/ready', {
    GET: {
      schema: healthSchema,
      handle: async (request, reply) => {
        const isReady = !closing.aborted && (await isServing(master));
        if (!isReady) reply.code(503);
        return sendAnswer(context, request, reply, { status: isReady ? 'ready' : 'not ready' });
      },
    },
  });
}

/** Whether the master is running and can store returns. */
async function isServing(master: ApiContext['master']): Promise<boolean> {
  try {
    const { storeFull, cluster } = await master.status();
    return !storeFull && (cluster === undefined || isServingMember(cluster));
  } catch {
    return false;
  }
}
