/** Metrics of a master. docs/metrics.md explains them. */

import { performance } from 'node:perf_hooks';
import type { Store } from '#store';
import type {
  ClusterStatus,
  Distribution,
  MasterStatus,
  MetricFamily,
  Sample,
} from '../api/index.ts';

/** Values that are read at the time when metrics are requested. */
export interface MeasuredNow {
  readonly status: MasterStatus;
  /** Number of minions that are subscribed to publications. */
  readonly present: number;
  readonly events: EventFigures;
  readonly queues: QueueDepths;
  readonly returnBytes: ReturnFigures;
}

/** Disk space of the stored returns. */
interface ReturnFigures {
  /** Number of counted bytes. */
  readonly total: number;
  /** Number of returns whose value was not stored because of the limit. */
  readonly notStored: number;
}

/**
 * Numbers of events on the event bus since the start of the master, and the number of current
 * subscribers.
 */
export interface EventFigures {
  /** Number of events that the master itself emitted. */
  readonly ofMaster: number;
  readonly ofMinions: number;
  readonly readers: number;
  readonly dropped: number;
}

/** Lengths of queues, by name. */
type QueueDepths = {
  /** Number of RSA operations that wait for a thread. */
  readonly rsa: number;
  /** Number of requests that are delayed because their minion exceeds its rate limit. */
  readonly requests: number;
  /** Number of pending events of the slowest subscriber. */
  readonly events: number;
  /** Number of reaction runs that have not started. */
  readonly reactions: number;
};

/** Returns all metric families of a master. */
export function metricFamilies(meter: Meter, now: MeasuredNow): readonly MetricFamily[] {
  const { status, present, events, queues, returnBytes } = now;
  const { cluster } = status;
  const refusals = Object.values(status.counters).reduce((sum, count) => sum + count, 0);
  const origins = { master: events.ofMaster, minion: events.ofMinions };
  const minions = { present, absent: Math.max(0, status.keys.accepted - present) };
  const subscribers = status.transports.map((it) => [it.transport, it.subscribers] as const);
  const store = { read: meter.storeReads, write: meter.storeWrites };
  return [
    counter(
      'authentications_total',
      'Sign-ins: accept, pend, reject, denied, refuse, full (max_minions), pending-full, rate, version, unusable-key, malformed.',
      meter.authentications,
    ),
    counter(
      'requests_total',
      'Requests of minions: answered, refused, failed, unanswered. cmd is unread if the request cannot be decrypted, and unknown if the command does not exist.',
      meter.requests,
    ),
    counter('returns_total', 'Accepted returns of jobs.', meter.returns),
    counter(
      'returns_not_stored_total',
      'Returns whose value was not stored, because their owner or minion used its share of `stored_return_bytes`.',
      returnBytes.notStored,
    ),
    gauge(
      'returns_stored_bytes',
      'Bytes of the stored returns, as they count for `stored_return_bytes`.',
      returnBytes.total,
    ),
    counter('pillar_renderings_total', 'Pillars compiled from files.', meter.pillarRenderings),
    counter(
      'pillars_total',
      'Pillars from files: rendered for the request, shared with minions whose inputs are equal, or own (kept for the minion).',
      meter.pillars,
    ),
    counter('signals_denied_total', 'Signals that no rule permitted.', meter.signalsDenied),
    counter('events_total', 'Events that the master or a minion emitted.', by('origin', origins)),
    counter(
      'event_readers_dropped_total',
      'Event readers disconnected because they were too slow.',
      events.dropped,
    ),
    counter(
      'refusals_total',
      'Rejected, delayed or dropped requests. saltbridge status prints the reasons.',
      refusals,
    ),
    gauge('keys', 'Keys of minions.', by('state', status.keys)),
    gauge(
      'minions',
      'Accepted minions that are subscribed to publications (present) or not (absent).',
      by('state', minions),
    ),
    gauge(
      'subscribers',
      'Connections that are subscribed to publications.',
      by('transport', Object.fromEntries(subscribers)),
    ),
    gauge('event_readers', 'Event readers.', events.readers),
    gauge(
      'queue_depth',
      'Number of waiting items: RSA operations, requests above the rate limit of their minion, events of the slowest reader, runs of reactions.',
      by('queue', queues),
    ),
    gauge('store_full', '1 if the disk of the store is full.', Number(status.storeFull)),
    ...clusterGauges(cluster),
    gauge('audit_full', '1 if the audit log cannot be written.', Number(status.auditFull)),
    gauge(
      'start_time_seconds',
      'Start time of the master, in seconds since 1970.',
      status.startedAt / 1000,
    ),
    histogram(
      'job_first_return_seconds',
      'Time from the publication of a job to its first return.',
      meter.firstReturn,
    ),
    histogram(
      'job_last_return_seconds',
      'Time from the publication of a job to its last return, if all minions answered.',
      meter.lastReturn,
    ),
    {
      ...histogram(
        'store_operation_seconds',
        'Duration of a read or write of the store, disk access included.',
        store.read,
      ),
      labels: ['operation'],
      distributions: Object.entries(store).map(([operation, it]) => it.distribution({ operation })),
    },
  ];
}

/**
 * Returns the metrics of a cluster. They have no samples if the master does not belong to a
 * cluster.
 */
function clusterGauges(cluster: ClusterStatus | undefined): MetricFamily[] {
  const members = cluster?.members ?? [];
  const alive = members.filter((it) => it.isAlive).length;
  const states = cluster && { alive, 'not-heard': members.length - alive };
  return [
    gauge('cluster_members', 'Members that are alive or not-heard.', by('state', states)),
    gauge(
      'cluster_position',
      'Position up to which this master has applied the log.',
      cluster?.position,
    ),
    gauge(
      'cluster_refuses_writes',
      '1 if too few members are alive to store a write.',
      cluster && Number(cluster.refusesWrites),
    ),
    gauge(
      'cluster_stale',
      '1: this master may lack entries of the log, and rejects minions and tokens.',
      cluster && Number(cluster.isStale),
    ),
    gauge(
      'cluster_log_failing_seconds',
      'Time for which the log has accepted no write of this master.',
      cluster && cluster.failingMs / 1000,
    ),
  ];
}

interface Labelled {
  readonly labels: readonly string[];
  samples(): readonly Sample[];
}

/**
 * Converts `values`, which maps label values to numbers, to samples with this label. Default: no
 * samples.
 */
function by(label: string, values: Readonly<Record<string, number>> = {}): Labelled {
  const samples = Object.entries(values).map(([word, value]) => ({
    labels: { [label]: word },
    value,
  }));
  return { labels: [label], samples: () => samples };
}

const prefix = 'saltbridge_';

function scalar(type: 'counter' | 'gauge') {
  return (name: string, help: string, values: Labelled | number | undefined): MetricFamily => {
    const family = { type, name: `${prefix}${name}`, help };
    if (typeof values === 'object') {
      return { ...family, labels: values.labels, samples: values.samples() };
    }
    return {
      ...family,
      labels: [],
      samples: values === undefined ? [] : [{ labels: {}, value: values }],
    };
  };
}

const counter = scalar('counter');
const gauge = scalar('gauge');

function histogram(
  name: string,
  help: string,
  values: Histogram,
): Extract<MetricFamily, { type: 'histogram' }> {
  const { bounds } = values;
  const distributions = [values.distribution()];
  return { type: 'histogram', name: `${prefix}${name}`, help, labels: [], bounds, distributions };
}

/**
 * Counter with a value for each combination of labels. Label values must come from fixed sets and
 * not from a minion's input, so that the number of combinations is limited.
 */
export class Counter<L extends string> {
  readonly labels: readonly L[];
  readonly #counts = new Map<string, { readonly values: readonly string[]; count: number }>();

  constructor(labels: readonly L[]) {
    this.labels = labels;
  }

  /**
   * Adds one to the value of this combination of label values.
   * @param values - one value for each label, in the order of `labels`
   */
  add(...values: string[]): void {
    const key = values.join(' ');
    const known = this.#counts.get(key);
    if (known === undefined) this.#counts.set(key, { values, count: 1 });
    else known.count += 1;
  }

  samples(): Sample[] {
    return [...this.#counts.values()].map(({ values, count }) => ({
      labels: Object.fromEntries(this.labels.map((label, index) => [label, values[index] ?? ''])),
      value: count,
    }));
  }
}

/** Histogram of durations in seconds. */
export class Histogram {
  readonly bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;

  /** @param bounds - upper bounds of the buckets, ascending */
  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  observe(value: number): void {
    const index = this.bounds.findIndex((bound) => value <= bound);
    const bucket = index === -1 ? this.bounds.length : index;
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1;
    this.#sum += value;
  }

  distribution(labels: Readonly<Record<string, string>> = {}): Distribution {
    let total = 0;
    const counts = this.#counts.map((count) => {
      total += count;
      return total;
    });
    return { labels, counts, sum: this.#sum };
  }
}

/**
 * Upper bounds of the buckets for jobs, in seconds. They range from the fastest return to the
 * longest timeout.
 */
const jobBounds = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800];
/**
 * Upper bounds of the buckets for store operations, in seconds. They range from a read in memory to
 * a write on a slow disk.
 */
const storeBounds = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5];

/**
 * Outcome of a minion's request. `answered`: its handler replied. `refused`: the master rejected it
 * before a handler was called. `failed`: its handler failed. `unanswered`: the master closed the
 * connection without a reply.
 */
export type RequestOutcome = 'answered' | 'refused' | 'failed' | 'unanswered';

/**
 * Counters of one master, and histograms of its durations, since its start. Measuring cannot be
 * disabled, because each measurement costs only an addition.
 */
export class Meter {
  readonly authentications: Counter<'outcome'> = new Counter(['outcome']);
  readonly requests: Counter<'cmd' | 'outcome'> = new Counter(['cmd', 'outcome']);
  readonly firstReturn: Histogram = new Histogram(jobBounds);
  readonly lastReturn: Histogram = new Histogram(jobBounds);
  readonly storeReads: Histogram = new Histogram(storeBounds);
  readonly storeWrites: Histogram = new Histogram(storeBounds);
  readonly pillars: Counter<'source'> = new Counter(['source']);
  /** Number of pillars compiled from files. */
  pillarRenderings = 0;
  /** Number of rejected events. Minions sent these events, but no rule permitted them. */
  signalsDenied = 0;
  /** Number of returns stored or emitted as events. */
  returns = 0;

  /**
   * Counts a request.
   * @param cmd - name of a request type, `_auth` or `ping`. `unknown` for an unknown request type.
   * `unread` for a request that was rejected before its type was looked up, for example because it
   * could not be decoded
   */
  countRequest(cmd: string, outcome: RequestOutcome): void {
    this.requests.add(cmd, outcome);
  }

  /**
   * Records how long a return took, if it is the first or the last return of its job.
   * @param seconds - time since the job was published
   * @param answered - number of minions that have returned, including this one
   * @param minions - number of minions of the job
   */
  noteReturn(seconds: number, answered: number, minions: number): void {
    if (answered === 1) this.firstReturn.observe(seconds);
    if (answered === minions) this.lastReturn.observe(seconds);
  }
}

/** Wraps a store so that the durations of single reads and writes are measured. */
export function meteredStore(store: Store, { storeReads, storeWrites }: Meter): Store {
  return {
    get: async (key) => {
      const begin = performance.now();
      try {
        return await store.get(key);
      } finally {
        storeReads.observe((performance.now() - begin) / 1000);
      }
    },
    write: async (operations) => {
      const begin = performance.now();
      try {
        return await store.write(operations);
      } finally {
        storeWrites.observe((performance.now() - begin) / 1000);
      }
    },
    list: (prefix, options) => store.list(prefix, options),
    keys: (prefix) => store.keys(prefix),
    watch: (prefix, signal) => store.watch(prefix, signal),
    stream: (name) => store.stream(name),
    close: () => store.close(),
  };
}

/**
 * Counts rejected, delayed and dropped requests by reason. The reasons must come from a fixed set,
 * never from a client, so that their number is limited.
 */
export class RequestCounters {
  readonly #counts = new Map<string, number>();

  count(reason: string, times = 1): void {
    this.#counts.set(reason, (this.#counts.get(reason) ?? 0) + times);
  }

  /** Returns the counts since the start. */
  snapshot(): Record<string, number> {
    return Object.fromEntries(this.#counts);
  }
}
