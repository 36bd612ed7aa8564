/**
 * Members of a cluster that write while they, the NATS servers and the connections between them
 * fail at seeded times. This process compares the acknowledged writes with the final content of
 * each store.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { foundLog } from '#cluster/log/founding.ts';
import { openJetStreamLog } from '#cluster/log/jetstream-log.ts';
import { killChild } from '../../bench/kill-child.ts';
import { type NatsServer, startNatsServers } from '../../bench/nats-cluster.ts';
import { until } from '../helpers/deadline.ts';
import { TcpProxy } from '../helpers/tcp-proxy.ts';
import type { MemberMessage, MemberSetting } from '../store-suite/log-member.ts';
import { Random } from './random.ts';

const program = fileURLToPath(new URL('../store-suite/log-member.ts', import.meta.url));
const cluster = 'campaign';
const secret = Buffer.alloc(32, 9);
const recoveryMs = 120_000;
type Report = MemberMessage & { readonly type: 'report' };

/** All reports of members about their writes. */
class History {
  readonly kept = new Set<string>();
  readonly refused = new Set<string>();
  readonly tried = new Set<string>();
  readonly failures: string[] = [];
  counted = 0;

  hear(member: string, message: MemberMessage): void {
    if (message.type === 'try') this.tried.add(message.value);
    if (message.type === 'kept') this.kept.add(message.value);
    if (message.type === 'refused') this.refused.add(message.value);
    if (message.type === 'counted') this.counted += 1;
    if (message.type === 'failed') this.failures.push(`${member} ${message.code}`);
  }

  /** Checks the final stores. Returns problems; empty if there are none. */
  check(reports: ReadonlyMap<string, Report>): string[] {
    const problems = [...this.failures];
    const [first] = reports.values();
    for (const [member, report] of reports) {
      const records = new Set(report.records);
      if (records.size !== report.records.length) problems.push(`${member} has records twice`);
      const lost = [...this.kept].filter((value) => !records.has(value));
      if (lost.length > 0) problems.push(`${member} lacks ${lost.length}, such as ${lost[0]}`);
      const ghosts = report.records.filter((it) => this.refused.has(it) || !this.tried.has(it));
      if (ghosts.length > 0) problems.push(`${member} has what was refused, such as ${ghosts[0]}`);
      if (report.counter < this.counted) {
        problems.push(`${member} counts ${report.counter}, acknowledged were ${this.counted}`);
      }
      if (report.content !== first?.content || report.records.join() !== first.records.join()) {
        problems.push(`${member} does not hold what the first one holds`);
      }
      if (!isInOrder(report.records))
        problems.push(`${member} has writes of one lane out of order`);
    }
    return problems;
  }
}

/** Whether the values are in order. A writer waits for each of its writes. */
function isInOrder(records: readonly string[]): boolean {
  const last = new Map<string, number>();
  return records.every((record) => {
    const lane = record.slice(0, record.lastIndexOf('-'));
    const number = Number(record.slice(lane.length + 1));
    const isLater = number > (last.get(lane) ?? -1);
    last.set(lane, number);
    return isLater;
  });
}

/** A process with a store, and its proxies to the servers. */
class MemberProcess {
  readonly name: string;
  readonly proxies: readonly TcpProxy[];
  readonly #history: History;
  readonly #setting: Omit<MemberSetting, 'run'>;
  #child: ChildProcess | undefined;
  #run = 0;
  #opened = 0;
  #report: Report | undefined;

  constructor(setting: Omit<MemberSetting, 'run'>, proxies: readonly TcpProxy[], history: History) {
    this.name = setting.member;
    this.#setting = setting;
    this.proxies = proxies;
    this.#history = history;
  }

  /** Number of times that it has reported that its store is open or its writes have ended. */
  get opened(): number {
    return this.#opened;
  }

  start(): void {
    this.#run += 1;
    const setting: MemberSetting = { ...this.#setting, run: this.#run };
    this.#child = fork(program, [JSON.stringify(setting)], {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.#child.on('message', (message: MemberMessage) => {
      if (message.type === 'open') this.#opened += 1;
      if (message.type === 'report') this.#report = message;
      this.#history.hear(this.name, message);
    });
  }

  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child?.kill(name);
  }

  kill(): Promise<void> {
    return killChild(this.#child);
  }

  async end(): Promise<void> {
    const before = this.#opened;
    this.#child?.send('end');
    await until(`the end of ${this.name}`, () => this.#opened > before, recoveryMs);
  }

  async report(): Promise<Report> {
    this.#report = undefined;
    this.#child?.send('report');
    await until(`the report of ${this.name}`, () => this.#report !== undefined, recoveryMs);
    if (this.#report === undefined) throw new Error('no report');
    return this.#report;
  }
}

interface Setting {
  readonly servers: readonly NatsServer[];
  readonly members: readonly MemberProcess[];
  readonly history: History;
  readonly random: Random;
}

type Fault = (setting: Setting) => Promise<void>;

function pick<T>(random: Random, items: readonly T[]): T {
  const item = items[random.below(items.length)];
  if (item === undefined) throw new Error('nothing to choose from');
  return item;
}

/** Faults by name. After each of them, everything works again. */
const faults: Readonly<Record<string, Fault>> = {
  'member killed': async ({ members, random }) => {
    const member = pick(random, members);
    await member.kill();
    await sleep(random.below(1500));
    member.start();
  },
  'member stopped': async ({ members, random }) => {
    const member = pick(random, members);
    member.signal('SIGSTOP');
    await sleep(500 + random.below(4000));
    member.signal('SIGCONT');
  },
  'member cut off': async ({ members, random }) => {
    const { proxies } = pick(random, members);
    for (const proxy of proxies) proxy.cut();
    await sleep(500 + random.below(8000));
    for (const proxy of proxies) proxy.mend();
  },
  'line cut': async ({ members, random }) => {
    const proxy = pick(random, pick(random, members).proxies);
    proxy.cut();
    await sleep(500 + random.below(4000));
    proxy.mend();
  },
  'server killed': async ({ servers, random }) => {
    const server = pick(random, servers);
    await server.kill();
    await sleep(random.below(3000));
    server.start();
  },
  'server stopped': async ({ servers, random }) => {
    const server = pick(random, servers);
    server.signal('SIGSTOP');
    await sleep(500 + random.below(6000));
    server.signal('SIGCONT');
  },
  'all servers restarted': async ({ servers }) => {
    await Promise.all(servers.map((server) => server.kill()));
    for (const server of servers) server.start();
  },
};

/**
 * Runs `log [faults [seed]]`.
 * @returns 1 if there were problems
 */
export async function runLog(
  [count = '20', seed = String(Date.now() % 1_000_000)]: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  print(`log ${count} ${seed}`);
  const random = new Random(Number(seed));
  const directory = mkdtempSync(path.join(tmpdir(), 'saltbridge-campaign-'));
  const servers = await startNatsServers(path.join(directory, 'servers'), 3);
  const history = new History();
  const members: MemberProcess[] = [];
  try {
    const urls = servers.map(({ url }) => url);
    const create = { replicas: 3 };
    const log = await openJetStreamLog({
      servers: urls,
      cluster,
      create,
      connectTimeoutMs: 60_000,
    });
    await foundLog({ log, secret, cluster });
    await log.close();
    for (const [index, name] of ['a', 'b', 'c'].entries()) {
      const proxies = await Promise.all(servers.map(({ port }) => TcpProxy.start(port)));
      const lines = proxies.map(({ port }) => `nats://127.0.0.1:${port}`);
      members.push(
        new MemberProcess(
          {
            member: name,
            directory: path.join(directory, name),
            servers: [...lines.slice(index), ...lines.slice(0, index)],
            cluster,
            secret: secret.toString('hex'),
            // The clocks of the members differ by a minute.
            clockMs: index * 60_000,
          },
          proxies,
          history,
        ),
      );
    }
    for (const member of members) member.start();
    await progress(history, 100);
    for (let done = 0; done < Number(count); done += 1) {
      const kind = pick(random, Object.keys(faults));
      print(`${done + 1}: ${kind}; ${history.kept.size} kept`);
      await faults[kind]?.({ servers, members, history, random });
      await sleep(random.below(3000));
      await progress(history, 20);
      if (history.failures.length > 0) {
        for (const failure of history.failures) print(`WRONG: ${failure}`);
        return 1;
      }
    }
    for (const member of members) await member.end();
    const reports = new Map<string, Report>();
    const last = async (): Promise<boolean> => {
      for (const member of members) reports.set(member.name, await member.report());
      return new Set([...reports.values()].map(({ position }) => position)).size === 1;
    };
    while (!(await last())) await sleep(200);
    const problems = history.check(reports);
    print(`${history.kept.size} kept, ${history.refused.size} refused, ${history.counted} counted`);
    problems.push(...(await loseTheEnd(directory, { servers, members, history, random })));
    for (const problem of problems) print(`WRONG: ${problem}`);
    return problems.length === 0 ? 0 : 1;
  } finally {
    for (const member of members) {
      await member.kill();
      for (const proxy of member.proxies) proxy.close();
    }
    for (const server of servers) await server.kill();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Waits until a number of further writes are acknowledged. */
async function progress(history: History, more: number): Promise<void> {
  const before = history.kept.size;
  await until(
    'writes',
    () => history.kept.size >= before + more || history.failures.length > 0,
    recoveryMs,
  );
}

/** Restores an older state of the servers. No member may continue as if nothing had happened. */
async function loseTheEnd(
  directory: string,
  { servers, members, history }: Setting,
): Promise<string[]> {
  const folder = path.join(directory, 'servers');
  const before = path.join(directory, 'servers-before');
  const restart = async (change: () => void): Promise<void> => {
    await Promise.all(servers.map((server) => server.kill()));
    change();
    for (const server of servers) server.start();
  };
  for (const member of members) await member.kill();
  await restart(() => cpSync(folder, before, { recursive: true }));
  const opened = members.map((member) => member.opened);
  for (const member of members) member.start();
  const isOpen = (): boolean => members.every((it, index) => it.opened > (opened[index] ?? 0));
  await until('all members', isOpen, recoveryMs);
  await progress(history, 100);
  for (const member of members) await member.kill();
  await restart(() => {
    rmSync(folder, { recursive: true });
    cpSync(before, folder, { recursive: true });
  });
  history.failures.length = 0;
  for (const member of members) member.start();
  const told = (): Set<string> => new Set(history.failures);
  const all = members.map(({ name }) => `${name} ERR_STORE_DIVERGED`);
  try {
    await until('all members to stop', () => all.every((it) => told().has(it)), recoveryMs);
    return [];
  } catch {
    return [`the log has lost its end; told were only: ${[...told()].join(', ')}`];
  }
}
