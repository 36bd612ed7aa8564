/** What is counted of deployments, for `/metrics`. */

import type { MetricFamily } from '../../master/index.ts';
import type { DeliveryOutcome } from '../signals/transports.ts';
import type { DeploymentEnd } from './deployment-answer.ts';
import type { DeploymentRecord } from './deployment-records.ts';
import type { ServerStatus } from './server-worker.ts';
import type { ReadResult } from './sources.ts';

/** What there is when somebody asks. */
export interface DeploymentsNow {
  readonly servers: readonly Pick<ServerStatus, 'problem'>[];
  readonly open: readonly Pick<DeploymentRecord, 'state'>[];
}

/** Counts from the start of the master. */
export class DeploymentMeter {
  readonly #ends = countersOf<DeploymentEnd>(['failed', 'refused', 'succeeded', 'unknown']);
  readonly #reads = countersOf<ReadResult['kind']>(['failed', 'metadata', 'unchanged']);
  readonly #signals = countersOf<DeliveryOutcome['kind']>(['again', 'delivered', 'final']);

  countEnd(end: DeploymentEnd): void {
    count(this.#ends, end);
  }

  /** A read of a server's metadata. */
  countRead(kind: ReadResult['kind']): void {
    count(this.#reads, kind);
  }

  /** A try to tell Heat a result. */
  countSignal(kind: DeliveryOutcome['kind']): void {
    count(this.#signals, kind);
  }

  families({ servers, open }: DeploymentsNow): readonly MetricFamily[] {
    const failing = servers.filter(({ problem }) => problem !== undefined).length;
    const waiting = open.filter(({ state }) => state === 'signalling').length;
    return [
      counter('saltbridge_deployments_total', 'Deployments that ended.', 'end', this.#ends),
      counter(
        'saltbridge_deployment_reads_total',
        'Reads of metadata of servers.',
        'outcome',
        this.#reads,
      ),
      counter(
        'saltbridge_deployment_signals_total',
        'Results that were sent to Heat, each try.',
        'outcome',
        this.#signals,
      ),
      gauge('saltbridge_deployment_servers', 'Servers that are followed.', {
        failing,
        followed: servers.length - failing,
      }),
      gauge('saltbridge_deployments_open', 'Deployments that have not ended.', {
        running: open.length - waiting,
        signalling: waiting,
      }),
    ];
  }
}

function countersOf<T extends string>(names: readonly T[]): Map<T, number> {
  return new Map(names.map((name) => [name, 0]));
}

function count<T extends string>(counters: Map<T, number>, name: T): void {
  counters.set(name, (counters.get(name) ?? 0) + 1);
}

function counter(
  name: string,
  help: string,
  label: string,
  counters: ReadonlyMap<string, number>,
): MetricFamily {
  const samples = Array.from(counters, ([text, value]) => ({ labels: { [label]: text }, value }));
  return { type: 'counter', name, help, labels: [label], samples };
}

function gauge(name: string, help: string, states: Readonly<Record<string, number>>): MetricFamily {
  const samples = Object.entries(states).map(([state, value]) => ({ labels: { state }, value }));
  return { type: 'gauge', name, help, labels: ['state'], samples };
}
