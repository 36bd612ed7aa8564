/** `/metrics` for Prometheus: the metrics, and the check of who may read them. */

import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import type { FastifyInstance } from 'fastify';
import type { MasterApi, MetricFamily } from '#master';
import type { ApiContext } from '../context.ts';
import {
  AnswerCounter,
  type HttpMetrics,
  httpFamilies,
  processFamilies,
} from './metric-families.ts';
import { createMetricsAccessCheck } from './metrics-access.ts';
import { formatFamilies } from './metrics-text.ts';
import { addRoute } from './route.ts';
import { metricsSchema } from './schemas.ts';

/** Source of the metrics, which are computed for each request. */
interface MetricsExposition {
  readonly contentType: string;
  text(): Promise<string>;
  /** Stops measuring the delay of the event loop. */
  close(): void;
}

/** Returns all metric families: those of the master, of the HTTP API and of the process. */
async function allFamilies(
  master: Pick<MasterApi, 'metrics'>,
  http: HttpMetrics,
  delay: IntervalHistogram,
): Promise<readonly MetricFamily[]> {
  return [...(await master.metrics()), ...httpFamilies(http), ...processFamilies(delay)];
}

/**
 * Creates the source of the metrics.
 * @param http - returns the counters of this API
 */
function createMetricsExposition(
  master: Pick<MasterApi, 'metrics'>,
  http: () => HttpMetrics,
): MetricsExposition {
  // The measurement begins with the first request, because it wakes the process fifty times a
  // second.
  let delay: IntervalHistogram | undefined;
  return {
    contentType: 'text/plain; version=0.0.4; charset=utf-8',
    text: async () => {
      delay ??= watchEventLoop();
      const families = await allFamilies(master, http(), delay);
      delay.reset();
      return formatFamilies(families);
    },
    close: () => {
      delay?.disable();
    },
  };
}

function watchEventLoop(): IntervalHistogram {
  const delay = monitorEventLoopDelay({ resolution: 20 });
  delay.enable();
  return delay;
}

/**
 * Adds the route, unless the configuration disables it.
 * @throws SaltApiError ERR_HTTP_LISTEN for an unusable token
 */
export async function addMetricsRoute(app: FastifyInstance, context: ApiContext): Promise<void> {
  const { master, options, connections, streams, sessions, closing } = context;
  if (options.metrics === 'off') return;
  const check = await createMetricsAccessCheck(options.metrics);
  const answers = new AnswerCounter();
  app.addHook('onResponse', async (_request, reply) => answers.count(reply.statusCode));
  const exposition = createMetricsExposition(master, () => ({
    answers: answers.snapshot(),
    streams: streams.open,
    sessions: sessions.size,
    refusals: connections.refusals(),
  }));
  closing.addEventListener('abort', () => exposition.close(), { once: true });
  addRoute(app, '/metrics', {
    GET: {
      schema: metricsSchema,
      handle: async (request, reply) => {
        check(request);
        const text = await exposition.text();
        return reply.type(exposition.contentType).header('cache-control', 'no-store').send(text);
      },
    },
  });
}
