/** `/metrics`, for Prometheus. */
import type { FastifyInstance } from 'fastify';
import type { ApiContext } from '../context.ts';
import { createExposition } from '../metrics/exposition.ts';
import { AnswerCounts } from '../metrics/http-figures.ts';
import { createReaderCheck } from '../metrics/reader.ts';
import { metricsOperation } from '../page/operations.ts';
import { addResource } from './resource.ts';

/** Adds it unless it is off. @throws SaltApiError ERR_HTTP_LISTEN for a token that cannot be used */
export async function addMetricsRoute(app: FastifyInstance, context: ApiContext): Promise<void> {
  const { master, options, connections, streams, sessions, closing } = context;
  if (options.metrics === 'off') return;
  const check = await createReaderCheck(options.metrics);
  const answers = new AnswerCounts();
  app.addHook('onResponse', async (_request, reply) => answers.count(reply.statusCode));
  const exposition = createExposition(master, () => ({
    answers: answers.snapshot(),
    streams: streams.open,
    sessions: sessions.size,
    refusals: connections.refusals(),
  }));
  closing.addEventListener('abort', () => exposition.close(), { once: true });
  addResource(app, '/metrics', {
    GET: {
      about: metricsOperation,
      handle: async (request, reply) => {
        check(request);
        const text = await exposition.text();
        return reply.type(exposition.contentType).header('cache-control', 'no-store').send(text);
      },
    },
  });
}
