/** A centre and sites in one process, on real sockets of the loopback interface. */

import type { ExecutionContext } from 'ava';
import { connectExtension, type ExtensionClient } from '#client';
import { type IssuedTicket, joinSite, type SiteInfo, type SiteStatus } from '#edge';
import { createMasterServer } from '#server';
import type { UnstartedMasterServer } from '#server/master-with-services.ts';
import { temporaryDirectory } from '../helpers/temporary-directory.ts';
import { type SiteSection, siteSection, sitesSection } from './sections.ts';

type Options = NonNullable<Parameters<typeof createMasterServer>[0]>;

/** A master of the stage. It is closed at the end of the test. */
export interface StageMaster {
  readonly directory: string;
  readonly stateDir: string;
  readonly server: UnstartedMasterServer;
  /** Client of the local socket for an extension: `site` at the centre, `edge` at a site. */
  rpc(extension: string): ExtensionClient;
}

/** Starts a master with all services in a directory of its own, or in a given one. */
export async function startMaster(
  t: ExecutionContext,
  options: Options,
  directory: string = temporaryDirectory(t),
): Promise<StageMaster> {
  const server = await createMasterServer({
    rootDir: directory,
    stateDir: stateDirOf(directory),
    interface: '127.0.0.1',
    publishPort: 0,
    requestPort: 0,
    ...options,
  });
  t.teardown(() => server.close());
  await server.start();
  const { stateDir, socket } = server.master.config;
  return {
    directory,
    stateDir,
    server,
    rpc: (extension) => connectExtension({ socketPath: socket }, extension),
  };
}

export interface Centre extends StageMaster {
  readonly url: string;
  readonly port: number;
}

/** Starts a centre with an HTTP API on the loopback interface. */
export async function startCentre(
  t: ExecutionContext,
  options: Options = {},
  directory?: string,
  port = 0,
): Promise<Centre> {
  const api = { host: '127.0.0.1', port, disableSsl: true };
  const master = await startMaster(t, { api, sites: sitesSection(), ...options }, directory);
  const address = master.server.httpAddress;
  if (address === undefined) throw new Error('the centre has no HTTP API');
  return { ...master, url: `http://127.0.0.1:${address.port}`, port: address.port };
}

export function createTicket(
  centre: Pick<Centre, 'rpc' | 'url'>,
  name: string,
): Promise<IssuedTicket> {
  return centre.rpc('site').call<IssuedTicket>('ticket', { name, centre: centre.url });
}

/** Joins a site and starts its master. */
export async function startSite(
  t: ExecutionContext,
  centre: Pick<Centre, 'rpc' | 'url'>,
  name: string,
  options: Omit<Options, 'site'> & { readonly site?: Partial<SiteSection> } = {},
  url: string = centre.url,
  prepare: (stateDir: string) => void = () => {},
): Promise<StageMaster> {
  const directory = temporaryDirectory(t);
  const site = siteSection({ name, centre: url, ...options.site });
  const { ticket } = await createTicket(centre, name);
  await joinSite(ticket, { stateDir: stateDirOf(directory), site: { name, centre: centre.url } });
  prepare(stateDirOf(directory));
  return startMaster(t, { ...options, site }, directory);
}

/** Returns the state directory of a master with this root directory. */
export function stateDirOf(directory: string): string {
  return `${directory}/state`;
}

export function siteStatus(site: StageMaster): Promise<SiteStatus> {
  return site.rpc('edge').call<SiteStatus>('status');
}

/** Whether the master of a site answers. It does not while it restarts for a release. */
export async function isServing({ server }: Pick<StageMaster, 'server'>): Promise<boolean> {
  try {
    await server.master.status();
    return true;
  } catch {
    return false;
  }
}

export function siteInfo(centre: Pick<StageMaster, 'rpc'>, name: string): Promise<SiteInfo> {
  return centre.rpc('site').call<SiteInfo>('show', { name });
}

/** Waits until a condition holds, for at most 120 seconds. */
export async function eventually(
  condition: () => boolean | Promise<boolean>,
  what = 'the condition',
): Promise<void> {
  const end = Date.now() + 120_000;
  while (!(await condition())) {
    if (Date.now() > end) throw new Error(`${what} did not hold within 120 seconds`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
