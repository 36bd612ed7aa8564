/** A centre with the online key of another one, which sends any statement. */

import type { KeyObject } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { ExecutionContext } from 'ava';
import pino from 'pino';
import { readKey } from '#edge/identity/key-file.ts';
import { SiteRegistry } from '#edge/identity/site-registry.ts';
import { CentreConnections } from '#edge/link/centre-connections.ts';
import { MemberConnections } from '#edge/link/member-connections.ts';
import { giveStatement } from '#edge/rehoming/rehoming-messages.ts';
import { memoryRows } from '../bundles/tuf-stage.ts';
import { eventually } from '../edge-stage.ts';

export interface RogueCentre {
  readonly url: string;
  /** Waits until a site is connected. */
  waitFor(site: string): Promise<void>;
  isConnected(site: string): boolean;
  /** Number of connections that sites have tried. */
  attempts(): number;
  /** Sends a statement to a site, and returns the state in its reply. */
  give(site: string, statement: string): Promise<string>;
}

/** Returns the online key of a centre, as a thief of its machine has it. */
export async function onlineKeyOf(stateDir: string): Promise<KeyObject> {
  const key = await readKey(`${stateDir}/sites`, 'centre.key');
  if (key === undefined) throw new Error('the centre has no key');
  return key;
}

/** Starts a centre that accepts each site with any key. */
export async function startRogue(t: ExecutionContext, key: KeyObject): Promise<RogueCentre> {
  const rows = { ...memoryRows({ now: 0 }), follow: async () => {}, cluster: undefined };
  const sites = await SiteRegistry.open({ now: Date.now, shared: rows }, key);
  sites.authenticate = async () => {};
  const logger = pino({ level: 'silent' });
  const members = await MemberConnections.open(rows);
  const links = new CentreConnections({ key, sites, members, now: Date.now, logger });
  const server = createServer();
  let attempts = 0;
  server.on('upgrade', (request, socket, head) => {
    attempts += 1;
    links.upgrade(request, socket, head);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    links.close();
    server.close();
  });
  const { port } = server.address() as AddressInfo; // listens on TCP
  return {
    url: `http://127.0.0.1:${port}`,
    attempts: () => attempts,
    isConnected: (site) => links.callerOf(site) !== undefined,
    waitFor: (site) => eventually(() => links.callerOf(site) !== undefined, 'the site connects'),
    give: async (site, statement) => {
      const reply = await links.callerOf(site)?.call(giveStatement, { statement });
      return reply?.state ?? 'not connected';
    },
  };
}
