/**
 * Measures a fleet over three masters of a cluster: three NATS servers, three `saltbridge master`
 * processes and three processes with simulated minions, all on one machine. Rate limits are off.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { ClusterSite } from './cluster-site.ts';
import { makeKeyTexts, type SwarmKeyText } from './swarm/keys.ts';
import { order } from './swarm/order.ts';
import type { Order } from './swarm/orders.ts';

const swarmProgram = fileURLToPath(new URL('./swarm/program.ts', import.meta.url));
const masters = ['a', 'b', 'c'] as const;
const limitMs = 300_000;
const connections = 64;
const keyCount = 16;
const pings = 5;
const pauseMs = 100;

/** Process with simulated minions that are all connected to one master. */
interface Swarm {
  readonly master: string;
  readonly process: ChildProcess;
  readonly count: number;
}

/** Measures a fleet that is distributed evenly over three masters, and prints the results. */
export async function benchClusterFleet(
  count: number,
  print: (line: string) => void,
): Promise<void> {
  const directory = mkdtempSync(path.join(tmpdir(), 'sb-'));
  const off = ['requests_per_second', 'events_per_second', 'auths_per_second'];
  const options = ['limits:', ...off.map((name) => `  ${name}: 0`)];
  const site = new ClusterSite({ directory, limitMs, options });
  const swarms: Swarm[] = [];
  const timed = async (what: string, work: () => Promise<unknown>): Promise<void> => {
    const start = performance.now();
    await work();
    print(`${what.padEnd(60)} ${((performance.now() - start) / 1000).toFixed(1)} s`);
  };
  try {
    await site.startServers(masters);
    const keys = await makeKeyTexts(keyCount);
    swarms.push(...masters.map((master, at) => startSwarm(master, shareOf(count, at))));
    const pkiDir = path.join(site.folder('a'), 'pki');
    const [first] = swarms;
    if (first === undefined) return;
    await order(first.process, { do: 'accept', pkiDir, count, keys });
    await timed(`cluster init and start, with ${count} keys`, () => site.found('a'));
    await timed('two members join and start', async () => {
      for (const name of ['b', 'c']) await site.join(name, 'a');
    });
    await site.status('a', ({ members }) => members.filter(({ isAlive }) => isAlive).length === 3);
    const idle = residentMegabytes(site);
    await enlist(site, swarms, keys);
    await timed('all minions sign in for the first time', () => orderAll(swarms, signIn));
    await timed('all subscribe', () => subscribe(site, swarms));
    const subscribed = residentMegabytes(site);
    for (let round = 1; round <= pings; round += 1) {
      const name = masters[round % masters.length] ?? 'a';
      await timed(`test.ping on all minions, through ${name}`, () => ping(site, name, count));
    }
    const before = processorSeconds(site, swarms);
    await ping(site, 'b', count);
    const after = processorSeconds(site, swarms);
    const taken = [...after].map(
      ([who, s]) => `${who} ${(s - (before.get(who) ?? 0)).toFixed(1)} s`,
    );
    print(`processor time of another test.ping: ${taken.join(', ')}`);
    const busy = residentMegabytes(site);
    await timed('all minions sign in again after a change of the publish key', async () => {
      await rotatePublishKey(site);
      await orderAll(swarms, signIn);
    });
    await timed('test.ping on all minions, through b', () => ping(site, 'b', count));
    for (const [at, name] of masters.entries()) {
      const [before = 0, after = 0, pinged = 0] = [idle[at], subscribed[at], busy[at]];
      const perMinion = ((after - before) * 1000) / shareOf(count, at);
      print(
        `master ${name}: ${before.toFixed(0)} MB resident without minions, ${after.toFixed(0)} with ` +
          `${shareOf(count, at)} (${perMinion.toFixed(1)} kB each), ${pinged.toFixed(0)} after the pings`,
      );
    }
  } finally {
    for (const { process } of swarms) process.disconnect();
    await site.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

const signIn: Order = { do: 'sign-in', concurrency: 256, isAnew: true };

function startSwarm(master: string, count: number): Swarm {
  return { master, process: fork(swarmProgram), count };
}

/** Returns the number of minions, of `count` in all, that connect to the master with this index. */
function shareOf(count: number, at: number): number {
  return Math.floor((count + at) / masters.length);
}

function orderEach(swarms: readonly Swarm[], what: (swarm: Swarm) => Order): Promise<number[]> {
  return Promise.all(swarms.map((swarm) => order(swarm.process, what(swarm))));
}

function orderAll(swarms: readonly Swarm[], what: Order): Promise<number[]> {
  return orderEach(swarms, () => what);
}

function portsOf(site: ClusterSite, master: string) {
  const ports = site.ports.get(master);
  if (ports === undefined) throw new TypeError(`the master ${master} has no ports`);
  return ports;
}

async function enlist(
  site: ClusterSite,
  swarms: readonly Swarm[],
  keys: readonly SwarmKeyText[],
): Promise<void> {
  let first = 0;
  for (const { master, process, count } of swarms) {
    const { requestPort } = portsOf(site, master);
    await order(process, { do: 'enlist', first, count, keys, requestPort, connections });
    first += count;
  }
}

/** Subscribes all minions, and waits until the masters have registered all of them. */
async function subscribe(site: ClusterSite, swarms: readonly Swarm[]): Promise<void> {
  await orderEach(swarms, ({ master }) => {
    const { publishPort } = portsOf(site, master);
    return { do: 'subscribe', publishPort };
  });
  for (const { master, count } of swarms) {
    while ((await site.api(master).status()).subscribers < count) await sleep(pauseMs);
  }
}

async function ping(site: ClusterSite, master: string, count: number): Promise<void> {
  const updates = site.api(master).jobs.run({ tgt: '*', fun: 'test.ping', timeoutSeconds: 60 });
  for await (const update of updates) {
    if (update.type === 'finished' && update.answered.length !== count) {
      throw new Error(`${update.answered.length} of ${count} minions answered`);
    }
  }
}

/**
 * Rotates the publish key as Salt does, by deleting a minion's key. Resolves when all masters have
 * the new publish key.
 */
async function rotatePublishKey(site: ClusterSite): Promise<void> {
  const { keys } = site.api('a');
  await keys.create({ id: 'gone' });
  const heard = await Promise.all(
    masters.map((name) => site.api(name).events.subscribe({ match: 'key' })),
  );
  await keys.delete({ match: 'gone' });
  await Promise.all(heard.map(readFirst));
}

async function readFirst(items: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of items) return;
}

/**
 * Returns the processor time that each process has used since its start, in seconds. Other load of
 * the machine hardly affects this figure.
 */
function processorSeconds(site: ClusterSite, swarms: readonly Swarm[]): Map<string, number> {
  const pidsOf = {
    ...Object.fromEntries(masters.map((name) => [`master ${name}`, [site.processOf(name).pid]])),
    'NATS servers': site.serverPids,
    minions: swarms.flatMap(({ process }) => process.pid ?? []),
    'the caller': [process.pid],
  };
  return new Map(
    Object.entries(pidsOf).map(([who, pids]) => [
      who,
      pids.reduce((sum, pid) => sum + processorSecondsOf(pid), 0),
    ]),
  );
}

const ticksPerSecond = 100;

/**
 * Returns the processor time of a process from /proc/<pid>/stat [proc(5)]. The program name in
 * parentheses may contain spaces. User and system time are fields 14 and 15.
 */
function processorSecondsOf(pid: number): number {
  const [, behindName = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ');
  const fields = behindName.split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

/** Returns the resident memory of each master, in megabytes. */
function residentMegabytes(site: ClusterSite): number[] {
  return masters.map((name) => {
    const status = readFileSync(`/proc/${site.processOf(name).pid}/status`, 'utf8');
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) / 1000;
  });
}
