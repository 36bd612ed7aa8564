/** Three NATS servers and five masters on one machine, with connections that can fail. */

import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { jetstreamManager } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { initCluster, joinCluster } from '#cluster';
import { loadMasterConfig, type MasterConfig } from '#config';
import { codeOf } from '#runtime';
import { freePort } from '../../../bench/free-port.ts';
import {
  keepsCopiesEqual,
  type NatsServer,
  startNatsServers,
} from '../../../bench/nats-cluster.ts';
import { handleOptions } from '../../../bench/signals/setting.ts';
import { acceptAll } from '../../../bench/swarm/accept.ts';
import { makeKeyTexts, type SwarmKeyText } from '../../../bench/swarm/keys.ts';
import { TcpProxy } from '../../helpers/tcp-proxy.ts';
import { historyFile } from './history.ts';
import { MemberProcess } from './member-process.ts';

const startMs = 90_000;
export const user = 'ann';
export const password = 'of-the-campaign';
const clusterName = 'campaign';
const memberNames = ['a', 'b', 'c', 'd', 'e'] as const;

/** Catalog with the command of the run. Its minion receives the key with which it was called. */
const catalog = `
site.once:
  description: Runs once for each key.
  function: site.once
  reviewed: made for this campaign alone
  parameters: { type: object, required: [key], properties: { key: { type: string } } }
`;

export interface SiteOptions {
  readonly directory: string;
  /** Number of minions whose keys are accepted from the beginning. */
  readonly minions: number;
  /** URL of the service to which handles belong. */
  readonly origin: string;
  /** State directories that are not below the directory of the site, by member name. */
  readonly stateDirs?: Readonly<Record<string, string>>;
}

export class Site {
  readonly requestPort: number;
  readonly publishPort: number;
  readonly keys: readonly SwarmKeyText[];
  readonly histories: string;
  readonly serversDirectory: string;
  servers: readonly NatsServer[] = [];
  members: readonly MemberProcess[] = [];
  /** Proxies of the routes between two servers, by their numbers, for example `0 1`. */
  readonly #routes = new Map<string, TcpProxy[]>();
  readonly #formerStates = new Map<MemberProcess, string[]>();
  readonly #options: SiteOptions;

  private constructor(
    options: SiteOptions,
    ports: readonly [number, number],
    keys: readonly SwarmKeyText[],
  ) {
    this.#options = options;
    [this.requestPort, this.publishPort] = ports;
    this.keys = keys;
    this.histories = path.join(options.directory, 'histories');
    this.serversDirectory = path.join(options.directory, 'servers');
  }

  /** Starts servers and masters. Resolves when all of them are ready. */
  static async start(options: SiteOptions): Promise<Site> {
    const ports = [await freePort(), await freePort()] as const;
    const site = new Site(options, ports, await makeKeyTexts(4));
    mkdirSync(site.histories, { recursive: true });
    site.servers = await startNatsServers(site.serversDirectory, 3, (from, to, port) =>
      site.#routeOf(from, to, port),
    );
    try {
      await site.#startMembers();
      return site;
    } catch (error) {
      await site.end();
      throw error;
    }
  }

  get urls(): readonly string[] {
    return this.members.map(({ place }) => place.url);
  }

  /** Returns the routes between two servers. Each of the two may have opened one. */
  routesOf(one: number, other: number): readonly TcpProxy[] {
    return this.#routes.get(pairName(one, other)) ?? [];
  }

  /** Returns the number of the server that is the leader of the log. */
  async leader(): Promise<number> {
    const connection = await connect({ servers: this.servers.map(({ url }) => url) });
    try {
      const manager = await jetstreamManager(connection, { checkAPI: false });
      const { cluster } = await manager.streams.info(`saltbridge_${clusterName}`);
      return Number(cluster?.leader?.slice(1));
    } finally {
      await connection.close();
    }
  }

  member(name: string): MemberProcess {
    const found = this.members.find((it) => it.name === name);
    if (found === undefined) throw new Error(`no member ${name}`);
    return found;
  }

  async configOf({ place }: MemberProcess): Promise<MasterConfig> {
    return (await loadMasterConfig(place.directory)).config;
  }

  /** Returns the current and the former state directories of a member. */
  async stateDirsOf(member: MemberProcess): Promise<readonly string[]> {
    return [(await this.configOf(member)).stateDir, ...(this.#formerStates.get(member) ?? [])];
  }

  /**
   * Makes a member that has left its store join again, with a ticket of another member, and starts
   * it.
   */
  async rejoin(member: MemberProcess, by: MemberProcess): Promise<void> {
    const config = await this.configOf(member);
    const former = `${config.stateDir}.diverged-${Date.now()}`;
    renameSync(config.stateDir, former);
    this.#formerStates.set(member, [...(this.#formerStates.get(member) ?? []), former]);
    const { ticket } = await by.api.cluster.ticket();
    await joinCluster(config, ticket);
    member.start();
    await member.ready();
  }

  async end(): Promise<void> {
    for (const member of this.members) {
      await member.kill();
      for (const proxy of member.place.proxies) proxy.close();
    }
    for (const server of this.servers) await server.kill();
    for (const proxies of this.#routes.values()) for (const proxy of proxies) proxy.close();
  }

  async #startMembers(): Promise<void> {
    const [first] = memberNames;
    for (const [index, name] of memberNames.entries()) {
      const member = new MemberProcess(await this.#place(name, index));
      this.members = [...this.members, member];
      const config = await this.configOf(member);
      if (name === first) {
        await acceptAll(config.pkiDir, this.#options.minions, this.keys);
        await whenServersAreReady(() => initCluster(config));
      } else {
        const { ticket } = await this.member(first).api.cluster.ticket();
        await joinCluster(config, ticket);
      }
      member.start();
      await member.ready();
      if (member.end !== undefined) throw new Error(`${name}: ${member.end.message}`);
    }
  }

  async #routeOf(from: number, to: number, port: number): Promise<number> {
    if (from === to) return port;
    const proxy = await TcpProxy.start(port);
    const name = pairName(from, to);
    this.#routes.set(name, [...(this.#routes.get(name) ?? []), proxy]);
    return proxy.port;
  }

  async #place(name: string, index: number): Promise<MemberProcess['place']> {
    const { directory, origin, stateDirs = {} } = this.#options;
    const folder = path.join(directory, name);
    await mkdir(folder);
    const proxies = await Promise.all(this.servers.map(({ port }) => TcpProxy.start(port)));
    const lines = proxies.map(({ port }) => `nats://127.0.0.1:${port}`);
    const first = index % lines.length;
    const httpPort = await freePort();
    const host = `127.0.0.${index + 1}`;
    const socketPath = path.join(folder, 'run', 's.sock');
    const config = {
      id: `master-${name}`,
      root_dir: folder,
      interface: host,
      ret_port: this.requestPort,
      publish_port: this.publishPort,
      pki_dir: '/pki',
      sock_dir: '/run',
      cachedir: '/cache',
      log_file: '/log',
      pidfile: '/pid',
      keysize: 2048,
      timeout: 10,
      external_auth: { sharedsecret: { [user]: ['.*', '@jobs', '@runner', '@wheel'] } },
      sharedsecret: password,
      rest_cherrypy: { host: '127.0.0.1', port: httpPort, disable_ssl: true },
      saltbridge: {
        state_dir: stateDirs[name] ?? path.join(folder, 'state'),
        socket: socketPath,
        limits: { requests_per_second: 0, events_per_second: 0 },
        cluster: {
          name: clusterName,
          member: name,
          // If the servers' copies differ, two members may contain entries that only one copy of
          // the log has.
          acknowledge: keepsCopiesEqual() ? 'second' : 'majority',
          nats: [...lines.slice(first), ...lines.slice(0, first)],
        },
        acl: { signals: [{ tag: 'heat/*', minions: '*' }] },
        bridge: {
          catalog: ['commands.yaml'],
          handles: handleOptions(origin, 2),
        },
      },
    };
    writeFileSync(path.join(folder, 'master'), JSON.stringify(config));
    writeFileSync(path.join(folder, 'commands.yaml'), catalog);
    return {
      name,
      directory: folder,
      host,
      url: `http://127.0.0.1:${httpPort}`,
      socketPath,
      proxies,
      historyFile: historyFile(this.histories, `ledger-${name}`),
    };
  }
}

/**
 * Repeats work until the servers have found each other. Before that, they cannot create the log.
 */
export async function whenServersAreReady(work: () => Promise<unknown>): Promise<void> {
  const end = performance.now() + startMs;
  for (;;) {
    try {
      await work();
      return;
    } catch (error) {
      if (codeOf(error) !== 'ERR_STORE_UNAVAILABLE' || performance.now() > end) throw error;
    }
  }
}

function pairName(one: number, other: number): string {
  return [one, other].sort().join(' ');
}
