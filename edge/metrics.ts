/**
 * Metrics of a site and of a centre. They have no label with the name of a site, so that their
 * number stays small.
 */

import { familyOf, figureOf } from '#heat-bridge';
import type { MetricFamily } from '#master';
import type { LinkState } from './link/link.ts';
import type { IngestFigures } from './log/ingest.ts';
import { logClasses, type SiteLog, type WaitingEntries } from './log/log.ts';

/** Returns the metrics of a site. */
export function siteFamilies(log: SiteLog, link: LinkState, now: number): readonly MetricFamily[] {
  const by = (figureOfClass: (waiting: WaitingEntries) => number): Record<string, number> =>
    Object.fromEntries(logClasses.map((name) => [name, figureOfClass(log.waiting[name])]));
  const of = (type: 'counter' | 'gauge', name: string, help: string) =>
    ({ type, name: `edge_${name}`, help, label: 'class' }) as const;
  const ageOf = ({ oldestAt = now }: WaitingEntries): number => Math.max(0, now - oldestAt) / 1000;
  return [
    figureOf(
      'gauge',
      'edge_connected',
      '1 if this site is connected to its centre.',
      Number(link.isConnected),
    ),
    familyOf(
      of('gauge', 'log_entries', 'Entries that wait for the centre.'),
      by(({ entries }) => entries),
    ),
    familyOf(
      of('gauge', 'log_bytes', 'Size of the entries that wait for the centre.'),
      by(({ bytes }) => bytes),
    ),
    familyOf(
      of('gauge', 'log_oldest_seconds', 'Age of the oldest entry that waits for the centre.'),
      by(ageOf),
    ),
    familyOf(
      of('counter', 'log_dropped_total', 'Entries that were dropped because the log was full.'),
      by(({ dropped }) => dropped),
    ),
  ];
}

/** Returns the metrics of a centre. */
export function centreFamilies(
  connected: number,
  entries: IngestFigures,
  turns: { readonly active: number; readonly waiting: number },
): readonly MetricFamily[] {
  return [
    figureOf('gauge', 'sites_connected', 'Sites that are connected to this process.', connected),
    familyOf(
      {
        type: 'gauge',
        name: 'sites_sending',
        help: 'Sites that send returns and facts (active), or wait for their turn.',
        label: 'state',
      },
      turns,
    ),
    familyOf(
      {
        type: 'counter',
        name: 'sites_entries_total',
        help: 'Entries of the logs of sites: applied, duplicates, refused, dropped by sites, unhandled.',
        label: 'result',
      },
      { ...entries },
    ),
  ];
}
