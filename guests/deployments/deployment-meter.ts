/** Metrics of deployments for `/metrics`. */

import { type DeliveryOutcome, familyOf } from '#heat-bridge';
import type { MetricFamily } from '#master';
import type { DeploymentEnd } from '../run-result.ts';
import type { DeploymentRecord } from './deployment-records.ts';
import type { ServerStatus } from './server-worker.ts';
import type { ReadResult } from './sources.ts';

/** Current numbers of servers and deployments, for gauges. */
export interface DeploymentsNow {
  readonly servers: readonly Pick<ServerStatus, 'problem'>[];
  readonly open: readonly Pick<DeploymentRecord, 'state'>[];
}

/** Counters of deployments since the start of the master. */
export class DeploymentMeter {
  readonly #ends: Record<DeploymentEnd, number> = {
    failed: 0,
    refused: 0,
    succeeded: 0,
    unknown: 0,
  };
  readonly #reads: Record<ReadResult['kind'], number> = { failed: 0, metadata: 0, unchanged: 0 };
  readonly #signals: Record<DeliveryOutcome['kind'], number> = { again: 0, delivered: 0, final: 0 };

  countEnd(end: DeploymentEnd): void {
    this.#ends[end] += 1;
  }

  /** Counts a read of a server's metadata. */
  countRead(kind: ReadResult['kind']): void {
    this.#reads[kind] += 1;
  }

  /** Counts an attempt to send a result to Heat. */
  countSignal(kind: DeliveryOutcome['kind']): void {
    this.#signals[kind] += 1;
  }

  families({ servers, open }: DeploymentsNow): readonly MetricFamily[] {
    const failing = servers.filter(({ problem }) => problem !== undefined).length;
    const waiting = open.filter(({ state }) => state === 'signalling').length;
    return [
      familyOf(
        {
          type: 'counter',
          name: 'deployments_total',
          help: 'Software deployments that ended: succeeded, failed, refused, unknown.',
          label: 'end',
        },
        this.#ends,
      ),
      familyOf(
        {
          type: 'counter',
          name: 'deployment_reads_total',
          help: 'Reads of servers: metadata, unchanged (an empty queue), failed.',
          label: 'outcome',
        },
        this.#reads,
      ),
      familyOf(
        {
          type: 'counter',
          name: 'deployment_signals_total',
          help: 'Attempts to send a result to Heat: delivered, again (a retry follows), final (Heat rejected the result).',
          label: 'outcome',
        },
        this.#signals,
      ),
      familyOf(
        {
          type: 'gauge',
          name: 'deployment_servers',
          help: 'Servers that are followed, or that cannot be read or whose next deployment waits (failing).',
          label: 'state',
        },
        { failing, followed: servers.length - failing },
      ),
      familyOf(
        {
          type: 'gauge',
          name: 'deployments_open',
          help: 'Deployments that are running, or whose result Heat has not accepted yet (signalling).',
          label: 'state',
        },
        { running: open.length - waiting, signalling: waiting },
      ),
    ];
  }
}
