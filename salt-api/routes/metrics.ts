/** `/metrics`, for Prometheus: what it exposes, and who may read it. */

import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { MasterApi, MetricFamily } from '#master';
import type { ApiContext } from '../context.ts';
import { SaltApiError } from '../errors.ts';
import { isLocalName, isLoopback } from '../host-guard.ts';
import { addRoute } from './route.ts';
import { metricsSchema } from './schemas.ts';

// Families of the HTTP API and of the process.

function httpFamilies({ answers, streams, sessions, refusals }: HttpMetrics): MetricFamily[] {
  return [
    {
      type: 'counter',
      name: 'saltbridge_http_answers_total',
      help: 'Answers of the HTTP API by class of status.',
      labels: ['status'],
      samples: [...answers].map(([status, value]) => ({ labels: { status }, value })),
    },
    gauge('saltbridge_http_streams', 'Event streams that are open.', streams),
    gauge(
      'saltbridge_http_sessions',
      'Sessions that have not ended, in a cluster at any member.',
      sessions,
    ),
    {
      type: 'counter',
      name: 'saltbridge_http_refused_connections_total',
      help: 'Connections to the HTTP API that were ended or not taken in, by reason.',
      labels: ['reason'],
      samples: Object.entries(refusals).map(([reason, value]) => ({ labels: { reason }, value })),
    },
  ];
}

/** @param delay of the event loop, nanoseconds */
function processFamilies(delay: IntervalHistogram): MetricFamily[] {
  const { user, system } = process.cpuUsage();
  const { rss, heapUsed } = process.memoryUsage();
  return [
    {
      type: 'gauge',
      name: 'saltbridge_event_loop_delay_seconds',
      help: 'How late the event loop was since the last time this was read.',
      labels: ['quantile'],
      samples: ['0.5', '0.99', '1'].map((quantile) => ({
        labels: { quantile },
        value: quantileOf(delay, Number(quantile)),
      })),
    },
    {
      type: 'counter',
      name: 'process_cpu_seconds_total',
      help: 'Processor time that was used.',
      labels: [],
      samples: [{ labels: {}, value: (user + system) / 1e6 }],
    },
    gauge('process_resident_memory_bytes', 'Memory of the process.', rss),
    gauge('nodejs_heap_size_used_bytes', 'Memory of JavaScript values.', heapUsed),
  ];
}

function quantileOf(delay: IntervalHistogram, quantile: number): number {
  // Before the first sample there is nothing to divide.
  return delay.count === 0 ? 0 : delay.percentile(quantile * 100) / 1e9;
}

function gauge(name: string, help: string, value: number): MetricFamily {
  return { type: 'gauge', name, help, labels: [], samples: [{ labels: {}, value }] };
}

// The measurements of a master and its process in Prometheus' text format.

/** What is exposed is made when somebody asks. */
interface MetricsExposition {
  readonly contentType: string;
  text(): Promise<string>;
  /** Ends the watch over the event loop. */
  close(): void;
}

/** Every family there is: the master's, the HTTP API's, the process's. */
async function allFamilies(
  master: Pick<MasterApi, 'metrics'>,
  http: HttpMetrics,
  delay: IntervalHistogram,
): Promise<readonly MetricFamily[]> {
  return [...(await master.metrics()), ...httpFamilies(http), ...processFamilies(delay)];
}

/** @param http of this API; read at each request */
function createMetricsExposition(
  master: Pick<MasterApi, 'metrics'>,
  http: () => HttpMetrics,
): MetricsExposition {
  // Watched from the first request on: it wakes the process fifty times a second.
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

/** Prometheus' text format, version 0.0.4 [prometheus.io/docs/instrumenting/exposition_formats]. */
function formatFamilies(families: readonly MetricFamily[]): string {
  return families.map(formatFamily).join('\n\n').concat('\n');
}

function formatFamily(family: MetricFamily): string {
  const { name, help, type } = family;
  const lines = type === 'histogram' ? bucketLines(family) : sampleLines(family);
  return [`# HELP ${name} ${escapeText(help)}`, `# TYPE ${name} ${type}`, ...lines].join('\n');
}

function sampleLines({
  name,
  samples,
}: Exclude<MetricFamily, { type: 'histogram' }>): readonly string[] {
  return samples.map(({ labels, value }) => formatSample(name, labels, value));
}

function bucketLines({
  name,
  bounds,
  distributions,
}: Extract<MetricFamily, { type: 'histogram' }>): readonly string[] {
  return distributions.flatMap(({ labels, counts, sum }) => [
    ...counts.map((count, index) =>
      formatSample(`${name}_bucket`, { ...labels, le: String(bounds[index] ?? '+Inf') }, count),
    ),
    formatSample(`${name}_sum`, labels, sum),
    formatSample(`${name}_count`, labels, counts.at(-1) ?? 0),
  ]);
}

function formatSample(
  name: string,
  labels: Readonly<Record<string, string>>,
  value: number,
): string {
  const pairs = Object.entries(labels).map(
    ([label, text]) => `${label}="${escapeText(text).replaceAll('"', '\\"')}"`,
  );
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}`;
}

function escapeText(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

/** What the HTTP API counts of itself. */
interface HttpMetrics {
  /** Answers by class of status, `2xx` and so on. */
  readonly answers: ReadonlyMap<string, number>;
  /** Event streams that are open. */
  readonly streams: number;
  readonly sessions: number;
  /** Connections that were ended or not taken in, by reason. */
  readonly refusals: Readonly<Record<string, number>>;
}

const classes = ['1xx', '2xx', '3xx', '4xx', '5xx'] as const;

/** Counts answers: five numbers, whatever is asked. */
class AnswerCounter {
  readonly #counts = new Map<string, number>(classes.map((name) => [name, 0]));

  /** @param status HTTP's */
  count(status: number): void {
    const name = classes[Math.floor(status / 100) - 1];
    if (name !== undefined) this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  }

  snapshot(): ReadonlyMap<string, number> {
    return new Map(this.#counts);
  }
}

// Who may read `/metrics`.

/** @throws SaltApiError ERR_HTTP_UNKNOWN where it is not served to them, ERR_HTTP_SESSION */
type MetricsAccessCheck = (request: FastifyRequest) => void;

/** What a token of this length is guessed by is not worth trying. */
const minTokenLength = 16;

/**
 * @param access `loopback`: whoever asks on this machine, not through a proxy; else the path of a
 * file with a bearer token
 * @throws SaltApiError ERR_HTTP_LISTEN for a file that cannot be used
 */
async function createMetricsAccessCheck(access: string): Promise<MetricsAccessCheck> {
  if (access === 'loopback') return requireLoopback;
  const expected = digest(await readToken(access));
  return ({ headers }) => {
    const [, token = ''] = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? [];
    if (timingSafeEqual(digest(token), expected)) return;
    throw new SaltApiError('ERR_HTTP_SESSION', 'no bearer token, or another');
  };
}

/**
 * A proxy on this machine asks for others, and a page in its browser may have a name that leads
 * here: neither is somebody on this machine.
 */
function requireLoopback({ headers, ip }: FastifyRequest): void {
  const isForwarded = ['x-forwarded-for', 'x-real-ip', 'forwarded', 'via'].some(
    (name) => headers[name] !== undefined,
  );
  const isNamedSo = isLocalName(headers.host ?? '');
  if (isLoopback(ip) && isNamedSo && !isForwarded) return;
  throw new SaltApiError('ERR_HTTP_UNKNOWN', 'metrics are read on this machine');
}

async function readToken(file: string): Promise<string> {
  let token: string;
  try {
    token = (await readFile(file, 'utf8')).trim();
  } catch (cause) {
    throw new SaltApiError('ERR_HTTP_LISTEN', `${file}: cannot be read`, { cause });
  }
  if (/^\S+$/.test(token) && token.length >= minTokenLength) return token;
  const expected = `expected one word of ${minTokenLength} characters or more`;
  throw new SaltApiError('ERR_HTTP_LISTEN', `${file}: ${expected}`);
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** Adds it unless it is off. @throws SaltApiError ERR_HTTP_LISTEN for a token that cannot be used */
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
