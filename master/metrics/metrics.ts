/** What a master measures, as families with a name each; docs/metrics.md explains them. */

import { performance } from 'node:perf_hooks';
import type { Store } from '#store';
import type {
  ClusterStatus,
  Distribution,
  MasterStatus,
  MetricFamily,
  Sample,
} from '../api/index.ts';

/** What is measured when somebody asks. */
export interface MeasuredNow {
  readonly status: MasterStatus;
  /** Minions that listen to publications. */
  readonly present: number;
  readonly events: EventFigures;
  readonly queues: QueueDepths;
}

/** What the bus has done since the start, and its readers now. */
export interface EventFigures {
  /** Events that the master fired itself. */
  readonly ofMaster: number;
  readonly ofMinions: number;
  readonly readers: number;
  readonly dropped: number;
}

/** What waits, by where. */
type QueueDepths = {
  /** RSA operations that wait for a thread. */
  readonly rsa: number;
  /** Requests that wait because their minion is over its rate. */
  readonly requests: number;
  /** Events of the reader that has most of them waiting. */
  readonly events: number;
  /** Runs of reactions that have not begun. */
  readonly reactions: number;
};

/** Every family of a master. */
export function metricFamilies(meter: Meter, now: MeasuredNow): readonly MetricFamily[] {
  const { status, present, events, queues } = now;
  const { cluster } = status;
  const refusals = Object.values(status.counters).reduce((sum, count) => sum + count, 0);
  const origins = { master: events.ofMaster, minion: events.ofMinions };
  const minions = { present, absent: Math.max(0, status.keys.accepted - present) };
  const subscribers = status.transports.map((it) => [it.transport, it.subscribers] as const);
  const store = { read: meter.storeReads, write: meter.storeWrites };
  return [
    counter('authentications_total', 'Sign-ins of minions.', meter.authentications),
    counter('requests_total', 'Requests of minions.', meter.requests),
    counter('returns_total', 'Returns of jobs that were taken.', meter.returns),
    counter('signals_denied_total', 'Signals that no rule permitted.', meter.signalsDenied),
    counter('events_total', 'Events that were fired.', by('origin', origins)),
    counter('event_readers_dropped_total', 'Readers of events that were too slow.', events.dropped),
    counter('refusals_total', 'What was refused, delayed or dropped, whyever.', refusals),
    gauge('keys', 'Keys of minions.', by('state', status.keys)),
    gauge(
      'minions',
      'Accepted minions, by whether they listen to publications.',
      by('state', minions),
    ),
    gauge(
      'subscribers',
      'Connections that listen to publications.',
      by('transport', Object.fromEntries(subscribers)),
    ),
    gauge('event_readers', 'Readers of events.', events.readers),
    gauge('queue_depth', 'What waits.', by('queue', queues)),
    gauge('store_full', 'Whether the disk of the store is full.', Number(status.storeFull)),
    ...clusterGauges(cluster),
    gauge('audit_full', 'Whether the audit log cannot be written.', Number(status.auditFull)),
    gauge(
      'start_time_seconds',
      'When the master started, seconds since 1970.',
      status.startedAt / 1000,
    ),
    histogram(
      'job_first_return_seconds',
      'From publishing a job to its first return.',
      meter.firstReturn,
    ),
    histogram(
      'job_last_return_seconds',
      'From publishing a job to the return that was missing.',
      meter.lastReturn,
    ),
    {
      ...histogram(
        'store_operation_seconds',
        'How long single reads and writes of the store take.',
        store.read,
      ),
      labels: ['operation'],
      distributions: Object.entries(store).map(([operation, it]) => it.distribution({ operation })),
    },
  ];
}

/** Of a cluster; without samples where the master is a member of none. */
function clusterGauges(cluster: ClusterStatus | undefined): MetricFamily[] {
  const members = cluster?.members ?? [];
  const alive = members.filter((it) => it.isAlive).length;
  const states = cluster && { alive, 'not-heard': members.length - alive };
  return [
    gauge('cluster_members', 'Members of the cluster.', by('state', states)),
    gauge('cluster_position', 'Up to which this master has applied the log.', cluster?.position),
    gauge(
      'cluster_refuses_writes',
      'Whether too few members are alive to keep a write.',
      cluster && Number(cluster.refusesWrites),
    ),
    gauge(
      'cluster_log_failing_seconds',
      'How long the log has taken no write.',
      cluster && cluster.failingMs / 1000,
    ),
  ];
}

interface Labelled {
  readonly labels: readonly string[];
  samples(): readonly Sample[];
}

/** Values by the words of one label; `undefined`: none. */
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
 * A count for each combination of labels. Labels are words of ours, or names from closed tables,
 * never a minion's text: the number of combinations is bounded by the program.
 */
export class Counter<L extends string> {
  readonly labels: readonly L[];
  readonly #counts = new Map<string, { readonly values: readonly string[]; count: number }>();

  constructor(labels: readonly L[]) {
    this.labels = labels;
  }

  /** Adds one. @param values one for each label, in their order */
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

/** Values by size: seconds, in buckets. */
export class Histogram {
  readonly bounds: readonly number[];
  readonly #counts: number[];
  #sum = 0;

  /** @param bounds upper ends of the buckets, ascending */
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

/** Upper ends, seconds: of jobs, from the fastest answer to the longest that is waited for. */
const jobBounds = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800];
/** Upper ends, seconds: of a read from memory to a write on a slow disk. */
const storeBounds = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5];

/** What became of a request. */
export type RequestOutcome = 'answered' | 'refused' | 'failed' | 'unanswered';

/** Counts and durations of one master since its start. Always on: each is an addition. */
export class Meter {
  readonly authentications: Counter<'outcome'> = new Counter(['outcome']);
  readonly requests: Counter<'cmd' | 'outcome'> = new Counter(['cmd', 'outcome']);
  readonly firstReturn: Histogram = new Histogram(jobBounds);
  readonly lastReturn: Histogram = new Histogram(jobBounds);
  readonly storeReads: Histogram = new Histogram(storeBounds);
  readonly storeWrites: Histogram = new Histogram(storeBounds);
  /** Signals that no rule permitted. */
  signalsDenied = 0;
  /** Returns that were stored, or fired as events. */
  returns = 0;

  /** @param cmd one of the table's, `_auth`, `ping`, `unknown`, or `unread` */
  countRequest(cmd: string, outcome: RequestOutcome): void {
    this.requests.add(cmd, outcome);
  }

  /** @param seconds since the job was published @param answered minions, this one among them */
  noteReturn(seconds: number, answered: number, minions: number): void {
    if (answered === 1) this.firstReturn.observe(seconds);
    if (answered === minions) this.lastReturn.observe(seconds);
  }
}

/** The same store; how long single reads and writes take is noted. */
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
    watch: (prefix, signal) => store.watch(prefix, signal),
    stream: (name) => store.stream(name),
    close: () => store.close(),
  };
}

/** Counts what was refused, delayed or dropped, by reason. The set of reasons is ours, not a peer's. */
export class RequestCounters {
  readonly #counts = new Map<string, number>();

  count(reason: string, times = 1): void {
    this.#counts.set(reason, (this.#counts.get(reason) ?? 0) + times);
  }

  /** What was counted since the start. */
  snapshot(): Record<string, number> {
    return Object.fromEntries(this.#counts);
  }
}
