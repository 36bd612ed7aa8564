/** Process with masters of sites. Each has its own store, key and listeners. */

import { connectExtension } from '#client';
import { joinSite, type SiteStatus } from '#edge';
import { createMasterServer } from '#server';
import { HostProbe } from '../../edge/host-probe.ts';
import { siteSection } from '../../edge/sections.ts';
import { layMasterKey } from '../../helpers/rsa-keys.ts';
import { type AbsencePlan, type AbsenceReport, type Fire, spendAbsence } from './absence.ts';
import { serveParent } from './child.ts';
import { compilePillars, grainsOf, layNodeKeys, nodesOf } from './nodes.ts';
import { countPartBytes, residentMemory, takePartBytes } from './process-figures.ts';

/** Site to start. */
export interface SiteSettings {
  readonly name: string;
  readonly directory: string;
  readonly centre: string;
  readonly ticket: string;
  /** File with the certificate of the centre's CA. */
  readonly ca?: string;
  readonly logBytes?: number;
  /** Time by which the clock of the site is behind, in milliseconds. */
  readonly behindMs?: number;
}

/** Backlog of a site: entries that are appended while the centre is away. */
export interface BacklogPlan {
  readonly alarms: number;
  readonly returns: number;
  readonly bytesOfReturn: number;
}

type Server = Awaited<ReturnType<typeof createMasterServer>>;

/** Time by which the clock of a site differs from the real one, in milliseconds. */
interface Clock {
  offsetMs: number;
}

interface Hosted {
  readonly server: Server;
  /** Publishes an event as the master itself does, without an audit record. */
  readonly fire: Fire;
  readonly clock: Clock;
}

countPartBytes();
const sites = new Map<string, Hosted>();

function hosted(name: string): Hosted {
  const found = sites.get(name);
  if (found === undefined) throw new Error(`${name}: no such site`);
  return found;
}

/** Returns the status of a site. A busy process may lose an idle connection, so it tries again. */
async function statusOf({ server }: Hosted): Promise<SiteStatus> {
  const { socket } = server.master.config;
  const client = connectExtension({ socketPath: socket }, 'edge');
  try {
    return await client.call<SiteStatus>('status');
  } catch {
    return client.call<SiteStatus>('status');
  }
}

async function startSite(settings: SiteSettings): Promise<void> {
  const { name, directory, centre, ticket, logBytes, behindMs = 0 } = settings;
  const ca = settings.ca === undefined ? {} : { ca: settings.ca };
  const stateDir = `${directory}/state`;
  const pkiDir = `${directory}/pki`;
  layMasterKey(pkiDir);
  layNodeKeys(pkiDir, nodesOf(name));
  await joinSite(ticket, { stateDir, site: { name, centre, ...ca } });
  const clock: Clock = { offsetMs: -behindMs };
  const probe = new HostProbe();
  const server = await createMasterServer({
    extensions: [probe.extension],
    rootDir: directory,
    stateDir,
    pkiDir,
    interface: '127.0.0.1',
    publishPort: 0,
    requestPort: 0,
    logLevel: 'error',
    now: () => Date.now() + clock.offsetMs,
    site: siteSection({
      name,
      centre,
      ...ca,
      events: ['app/*'],
      alarms: ['alarm/*'],
      ...(logBytes === undefined ? {} : { logBytes }),
    }),
  });
  await server.start();
  await probe.keepGrains(grainsOf(nodesOf(name)));
  sites.set(name, { server, clock, fire: (tag, data) => probe.fire(tag, data) });
}

const functions = {
  start: async (settings: readonly SiteSettings[]) => {
    for (const each of settings) await startSite(each);
  },
  /** Reports the facts of the nodes of all sites. */
  facts: async () => {
    for (const [name, { fire }] of sites) {
      for (const node of nodesOf(name)) fire(`salt/minion/${node}/start`, {});
    }
  },
  /** Publishes an alarm at a site. */
  alarm: async ({ site }: { readonly site: string }) => {
    hosted(site).fire('alarm/link', {});
  },
  /** Version of the bundle that a site uses. 0 while its master restarts. */
  bundle: async ({ site }: { readonly site: string }) => {
    const families = await hosted(site)
      .server.master.metrics()
      .catch(() => []);
    const family = families.find(({ name }) => name.endsWith('site_bundle_version'));
    return family?.type === 'gauge' ? (family.samples[0]?.value ?? 0) : 0;
  },
  pillars: async () => {
    const reports = [];
    for (const [name, { server }] of sites) {
      reports.push({ name, ...(await compilePillars(server, nodesOf(name))) });
    }
    return reports;
  },
  /** Appends a backlog to each site, except the given one. Returns the size of all logs in bytes. */
  backlog: async ({ alarms, returns, bytesOfReturn, except }: BacklogPlan & { except: string }) => {
    for (const [name, { fire }] of sites) {
      if (name === except) continue;
      const nodes = nodesOf(name);
      for (let index = 0; index < alarms; index += 1) {
        fire(`alarm/${index}`, { index });
      }
      for (let index = 0; index < returns; index += 1) {
        const node = nodes[index % nodes.length] ?? '';
        const jid = `20260101${String(index).padStart(12, '0')}`;
        fire(`salt/job/${jid}/ret/${node}`, returnOf(jid, node, bytesOfReturn));
      }
    }
    // The log reads the event bus.
    for (const [name, site] of sites) {
      if (name === except) continue;
      while ((await statusOf(site)).log.return.entries < returns) await pause();
    }
  },
  /** Size of the logs of all sites, in bytes, and their figures. */
  logs: async () => {
    const logs: { name: string; log: SiteStatus['log']; isConnected: boolean }[] = [];
    for (const [name, site] of sites) {
      const { log, isConnected } = await statusOf(site);
      logs.push({ name, log, isConnected });
    }
    return logs;
  },
  absence: async ({
    site,
    ...plan
  }: AbsencePlan & { readonly site: string }): Promise<AbsenceReport> => {
    const found = hosted(site);
    return spendAbsence(plan, {
      name: site,
      fire: found.fire,
      setOffset: (ms) => {
        found.clock.offsetMs = ms;
      },
      status: () => statusOf(found),
    });
  },
  /** Received bytes of parts of packs since the last call. */
  received: async () => takePartBytes(),
  memory: () => residentMemory(),
  close: async () => {
    await Promise.all([...sites.values()].map(({ server }) => server.close()));
    sites.clear();
  },
};

/** Returns a return whose text can hardly be compressed. */
function returnOf(jid: string, node: string, bytes: number): Record<string, string | number> {
  let text = '';
  while (text.length < bytes) text += Math.random().toString(36).slice(2);
  return { jid, id: node, fun: 'cmd.run', retcode: 0, return: text.slice(0, bytes) };
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 20));
}

export type SitesFunctions = typeof functions;

serveParent(functions);
