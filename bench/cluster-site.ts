/** Runs several masters of a cluster on one machine, as if each had its own machine. */
import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { connectMaster } from '#client';
import type { MasterApi, MasterStatus } from '#master';
import { MasterProcess } from './crash/master-process.ts';
import { freePort } from './free-port.ts';
import { type NatsServer, startNatsServers } from './nats-cluster.ts';

type ClusterStatus = NonNullable<MasterStatus['cluster']>;

const commandLine = fileURLToPath(new URL('../cli/main.ts', import.meta.url));
const run = promisify(execFile);
const pauseMs = 250;

export interface ClusterSiteOptions {
  /** Directory that contains the directories of all servers and masters. */
  readonly directory: string;
  /**
   * Maximum time to wait for an expected cluster status, or for the end of a command, in
   * milliseconds.
   */
  readonly limitMs: number;
  /** Lines of YAML that are added below `saltbridge:` in each master's configuration. */
  readonly options?: readonly string[];
}

/** Ports of a master for its minions. */
export interface MinionPorts {
  readonly requestPort: number;
  readonly publishPort: number;
}

/** Three NATS servers and several masters. Each runs in a process of its own. */
export class ClusterSite {
  readonly #options: ClusterSiteOptions;
  readonly #masters = new Map<string, MasterProcess>();
  readonly #ports = new Map<string, MinionPorts>();
  #servers: readonly NatsServer[] = [];

  constructor(options: ClusterSiteOptions) {
    this.#options = options;
  }

  /** Ports for minions, by name of the master. */
  get ports(): ReadonlyMap<string, MinionPorts> {
    return this.#ports;
  }

  /**
   * Starts the NATS servers, and writes a configuration for each master.
   * @returns the URLs of the servers
   */
  async startServers(masters: readonly string[]): Promise<string[]> {
    this.#servers = await startNatsServers(this.#options.directory, 3);
    for (const name of masters) await this.#configure(name);
    return this.#servers.map(({ url }) => url);
  }

  get serverPids(): number[] {
    return this.#servers.flatMap(({ pid }) => pid ?? []);
  }

  async killServer(): Promise<string | undefined> {
    const [server] = this.#servers;
    await server?.kill();
    return server?.url;
  }

  /**
   * Creates the cluster from the state and keys of a master (`cluster init`), and starts this
   * master.
   */
  async found(name: string): Promise<string> {
    const said = await this.#command(name, 'init');
    await this.start(name);
    return said;
  }

  /** Lets a master join the cluster with a ticket from a running member, and starts it. */
  async join(name: string, member: string): Promise<string> {
    const { ticket } = await this.api(member).cluster.ticket();
    const said = await this.#command(name, 'join', ticket);
    await this.start(name);
    return said;
  }

  async start(name: string): Promise<void> {
    const master = new MasterProcess(this.folder(name));
    master.spawn();
    this.#masters.set(name, master);
    await master.ready();
  }

  async kill(name: string): Promise<void> {
    await this.#masters.get(name)?.kill();
    this.#masters.delete(name);
  }

  processOf(name: string): MasterProcess {
    const master = this.#masters.get(name);
    if (master === undefined) throw new TypeError(`the master ${name} is not running`);
    return master;
  }

  api(name: string): MasterApi {
    return connectMaster({ socketPath: path.join(this.folder(name), 'run', 's.sock') });
  }

  /**
   * Returns the cluster status of a member as soon as it meets the condition. At the time limit,
   * returns the last status.
   */
  async status(name: string, isMeant: (status: ClusterStatus) => boolean): Promise<ClusterStatus> {
    const end = performance.now() + this.#options.limitMs;
    for (;;) {
      const status = await this.api(name).cluster.status();
      if (status !== null && (isMeant(status) || performance.now() > end)) return status;
      await sleep(pauseMs);
    }
  }

  /** Kills all masters and servers. */
  async close(): Promise<void> {
    for (const master of this.#masters.values()) await master.kill();
    for (const server of this.#servers) await server.kill();
  }

  /** Returns the directory with the configuration and all other files of a master. */
  folder(name: string): string {
    return path.join(this.#options.directory, name);
  }

  /** Runs `saltbridge cluster …` for one of the masters, and returns its output. */
  async #command(name: string, ...words: string[]): Promise<string> {
    const args = [commandLine, 'cluster', ...words, '-c', this.folder(name)];
    const { stdout } = await run(process.execPath, args, { timeout: this.#options.limitMs });
    return stdout.trim();
  }

  async #configure(name: string): Promise<void> {
    const folder = this.folder(name);
    mkdirSync(folder);
    const [requestPort, publishPort] = [await freePort(), await freePort()];
    this.#ports.set(name, { requestPort, publishPort });
    const lines = [
      `root_dir: ${folder}`,
      `id: master-${name}`,
      'interface: 127.0.0.1',
      `ret_port: ${requestPort}`,
      `publish_port: ${publishPort}`,
      'pki_dir: /pki',
      'sock_dir: /run',
      'cachedir: /cache',
      'log_file: /log',
      'log_level: info',
      'keysize: 2048',
      'saltbridge:',
      `  state_dir: ${folder}/state`,
      `  socket: ${folder}/run/s.sock`,
      '  cluster:',
      '    name: example',
      `    member: ${name}`,
      `    nats: [${this.#servers.map(({ url }) => `"${url}"`).join(', ')}]`,
      ...(this.#options.options ?? []).map((line) => `  ${line}`),
    ];
    writeFileSync(path.join(folder, 'master'), `${lines.join('\n')}\n`);
  }
}
