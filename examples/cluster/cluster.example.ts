import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { MasterProcess } from '../../bench/crash/master-process.ts';
import { freePort } from '../../bench/free-port.ts';
import { type NatsServer, natsServerProgram, startNatsServers } from '../../bench/nats-cluster.ts';
import { connectMaster } from '../../client/index.ts';
import type { ClusterStatus, MasterApi } from '../../master/index.ts';
import {
  createMinion,
  createMinionKeys,
  dialZeromq,
  type Minion,
} from '../../minion-protocol/index.ts';
import { type Example, program, type Step } from '../example.ts';

const commandLine = fileURLToPath(new URL('../../cli/main.js', import.meta.url));
const run = promisify(execFile);
/** Three servers elect a leader, and three processes start, on one machine. */
const limitMs = 60_000;
const pauseMs = 250;

/** Three masters on one machine, as if they were on three. */
export const cluster: Example = {
  description: 'three masters over three NATS servers serve the same minions; one is killed',
  needs: () => [program(natsServerProgram, 'nats-server')],
  run: async (step) => {
    const site = new Site(mkdtempSync(path.join(tmpdir(), 'saltbridge-cluster-')));
    try {
      await runSteps(step, site);
    } finally {
      await site.close();
    }
  },
};

async function runSteps(step: Step, site: Site): Promise<void> {
  await step('start three NATS servers', () => site.startServers());
  await step(
    'saltbridge cluster init: the state and keys of master a become those of the cluster',
    async () => {
      const said = await site.command('a', 'init');
      await site.start('a');
      return said;
    },
  );
  for (const name of ['b', 'c']) {
    await step(`saltbridge cluster ticket at a, saltbridge cluster join at ${name}`, async () => {
      const { ticket } = await site.api('a').cluster.ticket();
      const said = await site.command(name, 'join', ticket);
      await site.start(name);
      return said;
    });
  }
  await step(
    'all three are members, and alive',
    () => site.status('a', (it) => it.members.filter(({ isAlive }) => isAlive).length === 3),
    (status) => status.members.length === 3,
  );
  await step(
    'a minion connects to each master; b accepts their keys',
    () => site.connectMinions(),
    (accepted) => accepted === 3,
  );
  await step(
    'a job that is asked of a is answered by the minions of all three',
    () => site.ping('a'),
    (minions) => minions.length === 3,
  );
  await step('kill -9 master c', () => site.kill('c'));
  await step(
    'a job that is asked of b at once is answered by the minions of a and b',
    () => site.ping('b', ['minion-a', 'minion-b']),
    (minions) => minions.length === 2,
  );
  await step(
    'a knows that c is away, and takes writes all the same: two of three are alive',
    () => site.status('a', (it) => it.members.some(({ isAlive }) => !isAlive)),
    (status) => !status.refusesWrites,
  );
  await step('start c again: its minion comes back by itself', () => site.start('c'));
  await step(
    'a job that is asked of c is answered by all three again',
    () => site.pingUntil('c', 3),
    (minions) => minions.length === 3,
  );
  await step('kill one of the NATS servers', () => site.killServer());
  await step(
    'a job that is asked of a is answered by all three: two of three servers keep the log',
    () => site.pingUntil('a', 3),
    (minions) => minions.length === 3,
  );
}

/** What the example starts, below one directory. */
class Site {
  readonly #directory: string;
  #servers: readonly NatsServer[] = [];
  readonly #masters = new Map<string, MasterProcess>();
  readonly #ports = new Map<string, number>();
  readonly #minions: Minion[] = [];

  constructor(directory: string) {
    this.#directory = directory;
  }

  async startServers(): Promise<string[]> {
    this.#servers = await startNatsServers(this.#directory, 3);
    for (const name of ['a', 'b', 'c']) await this.#configure(name);
    return this.#servers.map(({ url }) => url);
  }

  /** Runs `saltbridge cluster …` for one of the masters. */
  async command(name: string, ...words: string[]): Promise<string> {
    const args = [commandLine, 'cluster', ...words, '-c', this.#folder(name)];
    const { stdout } = await run(process.execPath, args, { timeout: limitMs });
    return stdout.trim();
  }

  async start(name: string): Promise<void> {
    const master = new MasterProcess(this.#folder(name));
    master.spawn();
    this.#masters.set(name, master);
    await master.ready();
  }

  async kill(name: string): Promise<void> {
    await this.#masters.get(name)?.kill();
    this.#masters.delete(name);
  }

  async killServer(): Promise<string | undefined> {
    const [server] = this.#servers;
    await server?.kill();
    return server?.url;
  }

  api(name: string): MasterApi {
    return connectMaster({ socketPath: path.join(this.#folder(name), 'run', 's.sock') });
  }

  /** The cluster as one of them sees it, once it is as is meant. */
  async status(name: string, isMeant: (status: ClusterStatus) => boolean): Promise<ClusterStatus> {
    const end = performance.now() + limitMs;
    for (;;) {
      const status = await this.api(name).cluster.status();
      if (status !== null && (isMeant(status) || performance.now() > end)) return status;
      await sleep(pauseMs);
    }
  }

  /** @returns how many keys were accepted */
  async connectMinions(): Promise<number> {
    const starting = [...this.#ports].map(async ([name, requestPort]) => {
      const minion = createMinion({
        id: `minion-${name}`,
        transport: dialZeromq({ host: '127.0.0.1', requestPort }),
        keys: await createMinionKeys(),
        acceptanceWaitMs: 500,
      });
      this.#minions.push(minion);
      await minion.start();
    });
    const { keys } = this.api('b');
    while ((await keys.list({ state: 'pending' })).length < starting.length) await sleep(pauseMs);
    const accepted = await keys.accept({ match: 'minion-*' });
    await Promise.all(starting);
    return accepted.length;
  }

  /** Who answers a ping that one of the masters is asked for. */
  async ping(name: string, minions?: readonly string[]): Promise<string[]> {
    const target = minions === undefined ? { tgt: '*' } : { tgt: [...minions], tgtType: 'list' };
    const answered: string[] = [];
    for await (const update of this.api(name).jobs.run({ ...target, fun: 'test.ping' })) {
      if (update.type === 'return') answered.push(update.minion);
    }
    return answered.sort();
  }

  async pingUntil(name: string, count: number): Promise<string[]> {
    const end = performance.now() + limitMs;
    for (;;) {
      const answered = await this.ping(name).catch(() => []);
      if (answered.length >= count || performance.now() > end) return answered;
      await sleep(pauseMs);
    }
  }

  async close(): Promise<void> {
    for (const minion of this.#minions) await minion.stop();
    for (const master of this.#masters.values()) await master.kill();
    for (const server of this.#servers) await server.kill();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #folder(name: string): string {
    return path.join(this.#directory, name);
  }

  async #configure(name: string): Promise<void> {
    const folder = this.#folder(name);
    mkdirSync(folder);
    const [requestPort, publishPort] = [await freePort(), await freePort()];
    this.#ports.set(name, requestPort);
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
    ];
    writeFileSync(path.join(folder, 'master'), `${lines.join('\n')}\n`);
  }
}
