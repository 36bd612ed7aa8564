/**
 * Measures a master under the load of a fleet on the same machine. The master runs in this process,
 * with V8 configured as in `saltbridge master`. The simulated minions run in another process. Rate
 * limits are off, which the output states.
 */
import { type ChildProcess, execFile, fork } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Master } from '#master';
import { createMaster } from '#server';
import { limitHeapGrowth } from '#server/process/heap-growth.ts';
import { benchConfig } from './config.ts';
import { makeKeyTexts, type SwarmKeyText } from './swarm/keys.ts';
import { order } from './swarm/order.ts';

/** Figures of one fleet. */
interface FleetFigures {
  readonly minions: number;
  readonly startMs: number;
  readonly signInsPerSecond: number;
  readonly eventsPerSecond: number;
  readonly pillarsPerSecond: number;
  /** Duration of `test.ping` on all minions, called in this process, in milliseconds. */
  readonly pingMs: number;
  /**
   * Duration of the same job from the command line, including the start of the command, in
   * milliseconds.
   */
  readonly commandMs: number;
  /** Returns per second while two jobs run at a time. */
  readonly returnsPerSecond: number;
  /**
   * Processor time of the master's process for each event, in microseconds. Other load of the
   * machine hardly affects this figure.
   */
  readonly eventCpuMicros: number;
  readonly pillarCpuMicros: number;
  readonly returnCpuMicros: number;
  /** Resident memory when all minions are subscribed, before the first job, in megabytes. */
  readonly subscribedMegabytes: number;
  /** Resident memory after the first job for all minions, in megabytes. */
  readonly afterPingMegabytes: number;
  readonly residentMegabytes: number;
}

const program = fileURLToPath(new URL('./swarm/program.ts', import.meta.url));
const command = fileURLToPath(new URL('../bin/saltbridge', import.meta.url));
const connections = 64;
const keyCount = 16;
const ofAll = { events: 60_000, pillars: 3_000, pings: 10 };

/**
 * Measures one fleet.
 * @param count - number of simulated minions. Each has its own id and subscription
 */
async function benchFleet(count: number): Promise<FleetFigures> {
  limitHeapGrowth();
  const rootDir = await mkdtemp(path.join(tmpdir(), 'sb-'));
  const config = benchConfig(rootDir, {
    limits: { requestsPerSecond: 0, eventsPerSecond: 0, authsPerSecond: 0 },
  });
  const keys = await makeKeyTexts(keyCount);
  // The minions run in another process, because the memory of the master's process is measured.
  const swarm = fork(program);
  const master = createMaster({ config });
  try {
    await order(swarm, { do: 'accept', pkiDir: config.pkiDir, count, keys });
    const options = { root_dir: rootDir, sock_dir: '/run', saltbridge: { socket: config.socket } };
    await writeFile(path.join(rootDir, 'master'), JSON.stringify(options));
    const startedAt = performance.now();
    await master.start();
    const startMs = performance.now() - startedAt;
    return { minions: count, startMs, ...(await measure(master, swarm, count, keys, rootDir)) };
  } finally {
    swarm.disconnect();
    await master.close();
    await rm(rootDir, { recursive: true, force: true });
  }
}

async function measure(
  master: Master,
  swarm: ChildProcess,
  count: number,
  keys: readonly SwarmKeyText[],
  rootDir: string,
): Promise<Omit<FleetFigures, 'minions' | 'startMs'>> {
  const { requestPort, publishPort } = await master.status();
  await order(swarm, { do: 'enlist', count, keys, requestPort, connections });
  await order(swarm, { do: 'sign-in', concurrency: 256 });
  const signInMs = await order(swarm, { do: 'sign-in', concurrency: 256 });
  await order(swarm, { do: 'subscribe', publishPort });
  // The first round is not measured, because V8 compiles the code in it.
  await fireEvents(swarm);
  await order(swarm, { do: 'seal-events', count: ofAll.events });
  const events = await measured(() => order(swarm, { do: 'events', concurrency: 1024 }));
  const pillars = await measured(() =>
    order(swarm, { do: 'pillars', count: ofAll.pillars, concurrency: 256 }),
  );
  const subscribedMegabytes = process.memoryUsage.rss() / 1e6;
  await ping(master, count);
  const afterPingMegabytes = process.memoryUsage.rss() / 1e6;
  const pingMs = await ping(master, count);
  const pings = Math.max(1, Math.round((ofAll.pings * 1000) / count));
  await pingRepeatedly(master, count, Math.ceil(pings / 2));
  const returns = await measured(async () => {
    const startedAt = performance.now();
    await Promise.all([pingRepeatedly(master, count, pings), pingRepeatedly(master, count, pings)]);
    return performance.now() - startedAt;
  });
  const returnCount = 2 * pings * count;
  const commandStart = performance.now();
  await promisify(execFile)(process.execPath, [command, 'salt', '-c', rootDir, '*', 'test.ping'], {
    maxBuffer: 2 ** 28,
  });
  return {
    signInsPerSecond: (count / signInMs) * 1000,
    eventsPerSecond: (ofAll.events / events.ms) * 1000,
    pillarsPerSecond: (ofAll.pillars / pillars.ms) * 1000,
    pingMs,
    commandMs: performance.now() - commandStart,
    returnsPerSecond: (returnCount / returns.ms) * 1000,
    eventCpuMicros: events.cpuMicros / ofAll.events,
    pillarCpuMicros: pillars.cpuMicros / ofAll.pillars,
    returnCpuMicros: returns.cpuMicros / returnCount,
    subscribedMegabytes,
    afterPingMegabytes,
    residentMegabytes: process.memoryUsage.rss() / 1e6,
  };
}

/**
 * Runs work several times and returns the result per unit of work.
 * @param work - returns its duration in milliseconds
 */
async function measured(
  work: () => Promise<number>,
): Promise<{ readonly ms: number; readonly cpuMicros: number }> {
  const before = process.cpuUsage();
  const ms = await work();
  const { user, system } = process.cpuUsage(before);
  return { ms, cpuMicros: user + system };
}

async function fireEvents(swarm: ChildProcess): Promise<number> {
  await order(swarm, { do: 'seal-events', count: ofAll.events });
  return order(swarm, { do: 'events', concurrency: 1024 });
}

async function pingRepeatedly(master: Master, count: number, times: number): Promise<void> {
  for (let time = 0; time < times; time += 1) await ping(master, count);
}

/**
 * Runs `test.ping` on all minions.
 * @returns duration until the last minion has responded, in milliseconds
 */
export async function ping(master: Master, count: number): Promise<number> {
  const startedAt = performance.now();
  for await (const update of master.jobs.run({ tgt: '*', fun: 'test.ping', timeoutSeconds: 60 })) {
    if (update.type === 'finished' && update.answered.length !== count) {
      throw new Error(`${update.answered.length} of ${count} minions answered`);
    }
  }
  return performance.now() - startedAt;
}

/** Measures a fleet and prints the results. */
export async function printFleet(count: number, print: (line: string) => void): Promise<void> {
  print(`\n# ${count} simulated minions in another process; rate limits off`);
  const figures = await benchFleet(count);
  for (const [name, value] of Object.entries(figures))
    print(`${name.padEnd(20)} ${Math.round(value)}`);
}
