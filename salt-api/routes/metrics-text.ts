/** Formats metrics as text for Prometheus. */

import type { MetricFamily } from '#master';

/**
 * Returns families in Prometheus' text format, version 0.0.4
 * [prometheus.io/docs/instrumenting/exposition_formats].
 */
export function formatFamilies(families: readonly MetricFamily[]): string {
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
