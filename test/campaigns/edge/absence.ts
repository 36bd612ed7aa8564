/** Absence of a centre in simulated time, and the entries that the log of a site has dropped. */

import type { SiteStatus } from '#edge';
import { type LogClass, logClasses } from '#edge/log/log.ts';
import type { WireMap } from '#minion-protocol';
import { nodesOf } from './nodes.ts';

export interface AbsencePlan {
  readonly hours: number;
  readonly logBytes: number;
  readonly returnsPerHour: number;
  readonly bytesOfReturn: number;
  /** Number of hours after which a report about facts of all nodes is appended. */
  readonly factsEvery: number;
}

export interface AbsenceReport {
  readonly appended: Readonly<Record<LogClass, number>>;
  readonly log: SiteStatus['log'];
  /** Largest size of the log after an hour, in bytes. */
  readonly largestBytes: number;
  /** Violations of the rule: oldest entries of the last class first, within the bound. */
  readonly problems: readonly string[];
}

/** Publishes an event. */
export type Fire = (tag: string, data: WireMap) => void;

export interface AbsentSite {
  readonly name: string;
  readonly fire: Fire;
  setOffset(ms: number): void;
  status(): Promise<SiteStatus>;
}

const hourMs = 3_600_000;

/**
 * Appends an alarm, returns and facts in each simulated hour. The clock of the site begins in the
 * past and ends at the present.
 */
export async function spendAbsence(plan: AbsencePlan, site: AbsentSite): Promise<AbsenceReport> {
  const { hours, logBytes, returnsPerHour, bytesOfReturn, factsEvery } = plan;
  const { fire } = site;
  const nodes = nodesOf(site.name);
  const before = (await site.status()).log;
  const appended: Record<LogClass, number> = { alarm: 0, signal: 0, return: 0, fact: 0 };
  const totalOf = (log: SiteStatus['log'], name: LogClass): number =>
    log[name].entries + log[name].dropped - before[name].entries - before[name].dropped;
  const problems: string[] = [];
  let largestBytes = 0;
  let log = before;
  for (let hour = 1; hour <= hours; hour += 1) {
    site.setOffset((hour - hours) * hourMs);
    fire(`alarm/hour${hour}`, { hour });
    appended.alarm += 1;
    for (let index = 0; index < returnsPerHour; index += 1) {
      const node = nodes[index % nodes.length] ?? '';
      const jid = `2026${String(hour).padStart(8, '0')}${String(index).padStart(8, '0')}`;
      const data = {
        jid,
        id: node,
        fun: 'test.ping',
        retcode: 0,
        return: 'x'.repeat(bytesOfReturn),
      };
      fire(`salt/job/${jid}/ret/${node}`, data);
      appended.return += 1;
    }
    if (hour % factsEvery === 0) {
      for (const node of nodes) fire(`salt/minion/${node}/start`, {});
      appended.fact += nodes.length;
    }
    do {
      await new Promise((resolve) => setTimeout(resolve, 5));
      ({ log } = await site.status());
    } while (logClasses.some((name) => totalOf(log, name) < appended[name]));
    const bytes = logClasses.reduce((sum, name) => sum + log[name].bytes, 0);
    largestBytes = Math.max(largestBytes, bytes);
    if (bytes > logBytes) problems.push(`hour ${hour}: ${bytes} bytes in a log of ${logBytes}`);
    for (const [index, name] of logClasses.entries()) {
      if (log[name].dropped === 0) continue;
      // Entries of a later class that remain were appended after this class had to give way.
      const later = logClasses.slice(index + 1).filter((it) => log[it].dropped === 0);
      const kept = later.filter((it) => log[it].entries > 0);
      if (kept.length > 0) problems.push(`hour ${hour}: ${name} dropped before ${kept.join(', ')}`);
    }
  }
  for (const name of logClasses) {
    if (totalOf(log, name) !== appended[name]) problems.push(`${name}: entries are not counted`);
  }
  return { appended, log, largestBytes, problems };
}
