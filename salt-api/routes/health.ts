/** `/health` and `/ready`, for balancers; they say nothing of the master. */
import type { FastifyInstance } from 'fastify';
import { type ApiContext, answer } from '../context.ts';
import { healthOperation } from '../operations.ts';
import { addResource } from './resource.ts';

export function addHealthRoutes(app: FastifyInstance, context: ApiContext): void {
  const { master, closing } = context;
  addResource(app, '/health', {
    GET: {
      about: healthOperation,
      handle: (request, reply) => answer(context, request, reply, { status: 'ok' }),
    },
  });
  addResource(app, '/ready', {
    GET: {
      about: healthOperation,
      handle: async (request, reply) => {
        const isReady = !closing.aborted && (await isServing(master));
        if (!isReady) reply.code(503);
        return answer(context, request, reply, { status: isReady ? 'ready' : 'not ready' });
      },
    },
  });
}

/** Whether the master runs, and can keep what minions return. */
async function isServing(
  master: Parameters<typeof addHealthRoutes>[1]['master'],
): Promise<boolean> {
  try {
    return !(await master.status()).storeFull;
  } catch {
    return false;
  }
}
