import type { BoundPorts, MasterTransport } from '#minion-protocol';
import {
  type InProcessApi,
  type MasterStatus,
  type MetricFamily,
  type ReactionsApi,
  type TransportStatus,
  version,
} from './api/index.ts';
import type { Audit } from './audit/index.ts';
import type { Auth } from './auth/index.ts';
import type { MasterContext, ModuleDeps } from './context/index.ts';
import type { Events } from './events/index.ts';
import type { Jobs } from './jobs/index.ts';
import { metricFamilies } from './metrics/index.ts';
import type { RequestLimits } from './requests/index.ts';

/** Transport of the master, with the ports that are bound. */
export interface BoundTransport extends BoundPorts {
  /** Name that Salt uses for the transport. */
  readonly transport: string;
}

export interface StatusDeps extends ModuleDeps {
  readonly auth: Auth;
  readonly audit: Audit;
  readonly transports: readonly MasterTransport[];
  readonly bound: readonly BoundTransport[];
}

/** Returns a function that describes the current state of the master. */
export function createStatus(deps: StatusDeps): () => MasterStatus {
  const { config, context, auth, audit, transports, bound } = deps;
  const startedAt = context.now();
  const [first] = bound;
  return () => {
    const { accepted, denied, pending, rejected } = auth.keys.list();
    return {
      id: config.fixed.id,
      version,
      pid: process.pid,
      startedAt,
      requestPort: first?.requestPort ?? 0,
      publishPort: first?.publishPort ?? 0,
      transports: describeTransports(deps),
      subscribers: transports.reduce((sum, it) => sum + it.subscribers().length, 0),
      aclMode: config.current.acl.mode,
      auditFull: audit.isFull(),
      storeFull: context.disk.isFull(),
      keys: {
        accepted: accepted.length,
        denied: denied.length,
        pending: pending.length,
        rejected: rejected.length,
      },
      ...(context.cluster === undefined ? {} : { cluster: context.cluster.status() }),
      counters: { ...sumOfRefusals(transports), ...context.counters.snapshot() },
    };
  };
}

function describeTransports({ bound, transports }: StatusDeps): TransportStatus[] {
  return bound.map((ports, index) => ({
    ...ports,
    subscribers: transports[index]?.subscribers().length ?? 0,
  }));
}

function sumOfRefusals(transports: readonly MasterTransport[]): Record<string, number> {
  const sums = new Map<string, number>();
  for (const [reason, count] of transports.flatMap((it) => Object.entries(it.refusals()))) {
    sums.set(reason, (sums.get(reason) ?? 0) + count);
  }
  return Object.fromEntries(sums);
}

/**
 * Converts the metrics of extensions to numbers, for the status of the master. The outer key is the
 * namespace of the extension. The inner key consists of the metric and its label values, for
 * example `outbox_signals waiting`. Histograms are omitted.
 * @param extensions - metrics by namespace
 */
export function figuresOf(
  extensions: ReadonlyMap<string, readonly MetricFamily[]>,
): NonNullable<MasterStatus['extensions']> {
  const figures: Record<string, Record<string, number>> = {};
  for (const [name, families] of extensions) {
    const samples = families.flatMap((family) =>
      family.type === 'histogram'
        ? []
        : family.samples.map(({ labels, value }): [string, number] => {
            const words = [family.name.replace(/^saltbridge_/, ''), ...Object.values(labels)];
            return [words.join(' '), value];
          }),
    );
    if (samples.length > 0) figures[name] = Object.fromEntries(samples);
  }
  return figures;
}

export interface MeasureDeps {
  readonly context: MasterContext;
  readonly auth: Auth;
  readonly events: Events;
  readonly jobs: Jobs;
  readonly reactions: ReactionsApi;
  readonly limits: RequestLimits;
}

/** Returns all metrics with their current values. */
export async function measure(
  { context, auth, events, jobs, reactions, limits }: MeasureDeps,
  status: MasterStatus,
): ReturnType<InProcessApi['metrics']> {
  const { bus } = events;
  const waiting = (await reactions.list()).reduce((sum, it) => sum + it.waiting, 0);
  return metricFamilies(context.meter, {
    status,
    present: jobs.present().length,
    events: bus.figures(),
    queues: {
      rsa: auth.rsa.waiting,
      requests: limits.requests.waiting,
      events: bus.deepestQueue(),
      reactions: waiting,
    },
    returnBytes: jobs.returnBytes,
  });
}
