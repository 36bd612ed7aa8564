/** Metric families of the HTTP API and of the process. */

import type { IntervalHistogram } from 'node:perf_hooks';
import type { MetricFamily } from '#master';

export function httpFamilies({
  answers,
  streams,
  sessions,
  refusals,
}: HttpMetrics): MetricFamily[] {
  return [
    {
      type: 'counter',
      name: 'saltbridge_http_answers_total',
      help: 'Responses by class of status: 2xx, 3xx, 4xx, 5xx.',
      labels: ['status'],
      samples: [...answers].map(([status, value]) => ({ labels: { status }, value })),
    },
    gauge('saltbridge_http_streams', 'Open event streams.', streams),
    gauge(
      'saltbridge_http_sessions',
      'Open sessions. In a cluster, includes the sessions of all members.',
      sessions,
    ),
    {
      type: 'counter',
      name: 'saltbridge_http_refused_connections_total',
      help: 'Connections that were closed or rejected because of a limit.',
      labels: ['reason'],
      samples: Object.entries(refusals).map(([reason, value]) => ({ labels: { reason }, value })),
    },
  ];
}

/**
 * Returns the metrics of the process.
 * @param delay - histogram of the delay of the event loop, in nanoseconds
 */
export function processFamilies(delay: IntervalHistogram): MetricFamily[] {
  const { user, system } = process.cpuUsage();
  const { rss, heapUsed } = process.memoryUsage();
  return [
    {
      type: 'gauge',
      name: 'saltbridge_event_loop_delay_seconds',
      help: 'Delay of the event loop since the metrics were last read: median (0.5), 99 % (0.99) and maximum (1).',
      labels: ['quantile'],
      samples: ['0.5', '0.99', '1'].map((quantile) => ({
        labels: { quantile },
        value: quantileOf(delay, Number(quantile)),
      })),
    },
    {
      type: 'counter',
      name: 'process_cpu_seconds_total',
      help: 'Processor time.',
      labels: [],
      samples: [{ labels: {}, value: (user + system) / 1e6 }],
    },
    gauge('process_resident_memory_bytes', 'Resident memory.', rss),
    gauge('nodejs_heap_size_used_bytes', 'Memory that JavaScript values occupy.', heapUsed),
  ];
}

function quantileOf(delay: IntervalHistogram, quantile: number): number {
  // Before the first sample, the percentile is undefined.
  return delay.count === 0 ? 0 : delay.percentile(quantile * 100) / 1e9;
}

function gauge(name: string, help: string, value: number): MetricFamily {
  return { type: 'gauge', name, help, labels: [], samples: [{ labels: {}, value }] };
}

/** Counters of the HTTP API. */
export interface HttpMetrics {
  /** Number of responses by class of status: `2xx` and so on. */
  readonly answers: ReadonlyMap<string, number>;
  /** Number of open event streams. */
  readonly streams: number;
  readonly sessions: number;
  /** Number of connections that were ended or rejected, by reason. */
  readonly refusals: Readonly<Record<string, number>>;
}

const classes = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const;

/** Counts responses by the five classes of status. */
export class AnswerCounter {
  readonly #counts = new Map<string, number>(classes.map((name) => [name, 0]));

  /** @param status - HTTP status code */
  count(status: number): void {
    const name = classes[Math.floor(status / 100) - 1];
    if (name !== undefined) this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  }

  snapshot(): ReadonlyMap<string, number> {
    return new Map(this.#counts);
  }
}
