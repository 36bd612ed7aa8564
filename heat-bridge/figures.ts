/** Metrics of the bridge and its extensions. */

import type { MetricFamily } from '#master';

/** A figure with a value for each of a few words, which are values of one label. */
interface LabelledFigure {
  readonly type: 'counter' | 'gauge';
  /** Without `saltbridge_`. */
  readonly name: string;
  readonly help: string;
  readonly label: string;
}

/** A figure with a value for each of a few words. */
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

/** A figure alone. */
export function figureOf(
  type: 'counter' | 'gauge',
  name: string,
  help: string,
  value: number,
): MetricFamily {
  const samples = [{ labels: {}, value }];
  return { type, name: `saltbridge_${name}`, help, labels: [], samples };
}
