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
export function siteFamilies(
  log: SiteLog,
  maxLogBytes: number,
  link: LinkState,
  now: number,
): readonly MetricFamily[] {
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
    figureOf(
      'gauge',
      'edge_log_max_bytes',
      'Maximum size of the entries that wait for the centre.',
      maxLogBytes,
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

/** Values for the metrics of a centre. */
export interface CentreFigures {
  /** Number of sites that are connected to this process. */
  readonly connected: number;
  /** Number of joined sites by the age of their last contact. */
  readonly contacts: Readonly<Record<string, number>>;
  readonly entries: IngestFigures;
  readonly turns: { readonly active: number; readonly waiting: number };
}

/** Returns the metrics of a centre. */
export function centreFamilies({
  connected,
  contacts,
  entries,
  turns,
}: CentreFigures): readonly MetricFamily[] {
  return [
    figureOf('gauge', 'sites_connected', 'Sites that are connected to this process.', connected),
    familyOf(
      {
        type: 'gauge',
        name: 'sites_by_contact',
        help: 'Joined sites by the time since their last contact: recent (at most 10 minutes), hour, day, week (at most one hour, day or week), older, never.',
        label: 'contact',
      },
      contacts,
    ),
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
        help: 'Entries of the logs of sites: applied, duplicates, refused, dropped by sites.',
        label: 'result',
      },
      { ...entries },
    ),
  ];
}

/**
 * Possible states of a site after a release was published, for the metric of
 * {@link progressFamily}.
 */
export const releaseProgress = ['current', 'refused', 'behind', 'away', 'waiting'] as const;

export type ReleaseProgress = (typeof releaseProgress)[number];

/**
 * Returns the metric that counts the joined sites by what they have done with the latest published
 * release, for example `current` or `refused`.
 */
export function progressFamily(counts: Readonly<Record<string, number>>): MetricFamily {
  return familyOf(
    {
      type: 'gauge',
      name: 'sites_by_release',
      help: 'Joined sites by their state with respect to the release that was published last: current, refused, behind (must install it), away (must install it, without contact for 10 minutes), waiting (not their turn, or the release is held or has stopped).',
      label: 'state',
    },
    counts,
  );
}
