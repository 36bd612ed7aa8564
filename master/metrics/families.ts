/** What a master measures, as families with a name each; docs/metrics.md explains them. */
import type { KeyState, MasterStatus } from '../api.ts';
import type { Distribution, Sample } from './instruments.ts';
import type { Meter } from './meter.ts';

/** A family of values. Names are in the manner of Prometheus; times are in seconds. */
export type MetricFamily =
  | {
      readonly type: 'counter' | 'gauge';
      readonly name: string;
      readonly help: string;
      /** Names of the labels. */
      readonly labels: readonly string[];
      readonly samples: readonly Sample[];
    }
  | {
      readonly type: 'histogram';
      readonly name: string;
      readonly help: string;
      readonly labels: readonly string[];
      /** Upper ends of the buckets. */
      readonly bounds: readonly number[];
      readonly distributions: readonly Distribution[];
    };

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
interface QueueDepths {
  /** RSA operations that wait for a thread. */
  readonly rsa: number;
  /** Requests that wait because their minion is over its rate. */
  readonly requests: number;
  /** Events of the reader that has most of them waiting. */
  readonly events: number;
  /** Runs of reactions that have not begun. */
  readonly reactions: number;
}

/** Every family of a master. */
export function metricFamilies(meter: Meter, now: MeasuredNow): readonly MetricFamily[] {
  return [...counters(meter, now), ...gauges(now), ...histograms(meter)];
}

function counters(meter: Meter, { events, status }: MeasuredNow): MetricFamily[] {
  return [
    counter('authentications_total', 'Sign-ins of minions.', meter.authentications.samples(), [
      'outcome',
    ]),
    counter('requests_total', 'Requests of minions.', meter.requests.samples(), ['cmd', 'outcome']),
    counter('returns_total', 'Returns of jobs that were taken.', [bare(meter.returns)]),
    counter('signals_denied_total', 'Signals that no rule permitted.', [bare(meter.signalsDenied)]),
    counter(
      'events_total',
      'Events that were fired.',
      [
        { labels: { origin: 'master' }, value: events.ofMaster },
        { labels: { origin: 'minion' }, value: events.ofMinions },
      ],
      ['origin'],
    ),
    counter('event_readers_dropped_total', 'Readers of events that were too slow.', [
      bare(events.dropped),
    ]),
    counter('refusals_total', 'What was refused, delayed or dropped, whyever.', [
      bare(Object.values(status.counters).reduce((sum, count) => sum + count, 0)),
    ]),
  ];
}

function gauges({ status, present, events, queues }: MeasuredNow): MetricFamily[] {
  const states: readonly KeyState[] = ['accepted', 'denied', 'pending', 'rejected'];
  return [
    gauge(
      'keys',
      'Keys of minions.',
      states.map((state) => ({ labels: { state }, value: status.keys[state] })),
      ['state'],
    ),
    gauge(
      'minions',
      'Accepted minions, by whether they listen to publications.',
      [
        { labels: { state: 'present' }, value: present },
        { labels: { state: 'absent' }, value: Math.max(0, status.keys.accepted - present) },
      ],
      ['state'],
    ),
    gauge(
      'subscribers',
      'Connections that listen to publications.',
      status.transports.map(({ transport, subscribers }) => ({
        labels: { transport },
        value: subscribers,
      })),
      ['transport'],
    ),
    gauge('event_readers', 'Readers of events.', [bare(events.readers)]),
    gauge(
      'queue_depth',
      'What waits.',
      Object.entries(queues).map(([queue, value]) => ({ labels: { queue }, value })),
      ['queue'],
    ),
    gauge('store_full', 'Whether the disk of the store is full.', [bare(Number(status.storeFull))]),
    gauge('audit_full', 'Whether the audit log cannot be written.', [
      bare(Number(status.auditFull)),
    ]),
    gauge('start_time_seconds', 'When the master started, seconds since 1970.', [
      bare(status.startedAt / 1000),
    ]),
  ];
}

function histograms(meter: Meter): MetricFamily[] {
  return [
    histogram('job_first_return_seconds', 'From publishing a job to its first return.', {
      bounds: meter.firstReturn.bounds,
      distributions: [meter.firstReturn.distribution()],
    }),
    histogram('job_last_return_seconds', 'From publishing a job to the return that was missing.', {
      bounds: meter.lastReturn.bounds,
      distributions: [meter.lastReturn.distribution()],
    }),
    histogram(
      'store_operation_seconds',
      'How long single reads and writes of the store take.',
      {
        bounds: meter.storeReads.bounds,
        distributions: [
          meter.storeReads.distribution({ operation: 'read' }),
          meter.storeWrites.distribution({ operation: 'write' }),
        ],
      },
      ['operation'],
    ),
  ];
}

function bare(value: number): Sample {
  return { labels: {}, value };
}

const prefix = 'saltbridge_';

function counter(
  name: string,
  help: string,
  samples: readonly Sample[],
  labels: readonly string[] = [],
): MetricFamily {
  return { type: 'counter', name: `${prefix}${name}`, help, labels, samples };
}

function gauge(
  name: string,
  help: string,
  samples: readonly Sample[],
  labels: readonly string[] = [],
): MetricFamily {
  return { type: 'gauge', name: `${prefix}${name}`, help, labels, samples };
}

function histogram(
  name: string,
  help: string,
  parts: { readonly bounds: readonly number[]; readonly distributions: readonly Distribution[] },
  labels: readonly string[] = [],
): MetricFamily {
  return { type: 'histogram', name: `${prefix}${name}`, help, labels, ...parts };
}
