/** Three NATS servers and five masters on one machine, with lines between them that can fail. */

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

/** The run of the bridge: its minion is told the key that it was called with. */
const catalog = `
site.once:
  description: Runs once for each key.
  function: site.once
  reviewed: made for this campaign alone
  parameters: { type: object, required: [key], properties: { key: { type: string } } }
`;

export interface SiteOptions {
  readonly directory: string;
  /** Minions whose keys are accepted from the beginning. */
  readonly minions: number;
  /** The service that handles lead to. */
  readonly origin: string;
  /** State directories that are elsewhere than below the directory, by the member's name. */
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
  /** Of the routes between two servers, by their numbers: `0 1`. */
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

  /** Starts servers and masters; resolves when all of them are there. */
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

  /** The lines between two servers: each may have made one to the other. */
  routesOf(one: number, other: number): readonly TcpProxy[] {
    return this.#routes.get(pairName(one, other)) ?? [];
  }

  /** The number of the server that leads the log. */
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

  /** The state directory of a member, and those that it had before. */
  async stateDirsOf(member: MemberProcess): Promise<readonly string[]> {
    return [(await this.configOf(member)).stateDir, ...(this.#formerStates.get(member) ?? [])];
  }

  /** A member that has left its store joins anew, by a ticket of another one, and starts. */
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
          // Two members may hold what one copy of the log has alone, where the servers' copies differ.
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

/** Does it again until the servers have found each other: before that they have no room for the log. */
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
