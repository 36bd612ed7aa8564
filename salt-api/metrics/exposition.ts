/** The measurements of a master and its process in Prometheus' text format. */
import type { IntervalHistogram } from 'node:perf_hooks';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { MasterApi, MetricFamily } from '../../master/index.ts';
import type { HttpFigures } from './http-figures.ts';
import { httpFamilies, processFamilies } from './own-families.ts';

/** What is exposed is made when somebody asks. */
export interface Exposition {
  readonly contentType: string;
  text(): Promise<string>;
  /** Ends the watch over the event loop. */
  close(): void;
}

/** Every family there is: the master's, the HTTP API's, the process's. */
async function allFamilies(
  master: Pick<MasterApi, 'metrics'>,
  http: HttpFigures,
  delay: IntervalHistogram,
): Promise<readonly MetricFamily[]> {
  return [...(await master.metrics()), ...httpFamilies(http), ...processFamilies(delay)];
}

/** @param http of this API; read at each request */
export function createExposition(
  master: Pick<MasterApi, 'metrics'>,
  http: () => HttpFigures,
): Exposition {
  // Watched from the first request on: it wakes the process fifty times a second.
  let delay: IntervalHistogram | undefined;
  return {
    contentType: 'text/plain; version=0.0.4; charset=utf-8',
    text: async () => {
      delay ??= watchEventLoop();
      const families = await allFamilies(master, http(), delay);
      delay.reset();
      return render(families);
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

/** Loaded when it is needed: it takes as long as half a start of the master. */
async function render(families: readonly MetricFamily[]): Promise<string> {
  const { AggregatorRegistry } = await import('prom-client');
  // Its own way in for what was counted elsewhere.
  return AggregatorRegistry.aggregate([families.map(toMeasured)]).metrics();
}

interface Measured {
  readonly name: string;
  readonly help: string;
  readonly type: MetricFamily['type'];
  readonly aggregator: 'sum';
  readonly values: readonly MeasuredValue[];
}

interface MeasuredValue {
  readonly value: number;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly metricName?: string;
}

function toMeasured(family: MetricFamily): Measured {
  const { name, help, type } = family;
  const values = type === 'histogram' ? bucketsOf(family) : family.samples;
  return { name, help, type, aggregator: 'sum', values };
}

function bucketsOf(family: Extract<MetricFamily, { type: 'histogram' }>): MeasuredValue[] {
  const { name, bounds, distributions } = family;
  return distributions.flatMap(({ labels, counts, sum }) => [
    ...counts.map((value, index) => ({
      value,
      labels: { ...labels, le: bounds[index] ?? '+Inf' },
      metricName: `${name}_bucket`,
    })),
    { value: sum, labels, metricName: `${name}_sum` },
    { value: counts.at(-1) ?? 0, labels, metricName: `${name}_count` },
  ]);
}
