/** Creates metrics of the bridge and its extensions. */

import type { MetricFamily } from '#master';

/** Metric with one label. It has one sample for each value of the label. */
interface LabelledFigure {
  readonly type: 'counter' | 'gauge';
  /** Name without the prefix `saltbridge_`. */
  readonly name: string;
  readonly help: string;
  readonly label: string;
}

/** Returns a metric that has one sample for each value of its label. */
export function familyOf(
  { type, name, help, label }: LabelledFigure,
  values: Readonly<Record<string, number>>,
): MetricFamily {
  const samples = Object.entries(values).map(([word, value]) => ({
    labels: { [label]: word },
    value,
  }));
  return { type, name: `saltbridge_${name}`, help, labels: [label], samples };
}

/** Returns a metric that has one sample and no labels. */
export function figureOf(
  type: 'counter' | 'gauge',
  name: string,
  help: string,
  value: number,
): MetricFamily {
  const samples = [{ labels: {}, value }];
  return { type, name: `saltbridge_${name}`, help, labels: [], samples };
}
