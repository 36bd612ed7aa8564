/**
 * Measures durable writes through the log of a cluster, with three NATS servers and two members on
 * this machine.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { foundLog } from '#cluster/log/founding.ts';
import { openJetStreamLog } from '#cluster/log/jetstream-log.ts';
import { type LogStore, openLogStore } from '#cluster/log/log-store.ts';
import { startNatsServers } from './nats-cluster.ts';

const measuredMs = 3000;
const value = Buffer.alloc(200, 1);

/**
 * Prints the writes per second with 1, 64 and 512 concurrent writes, and the rate at which a new
 * member replays them.
 */
export async function benchLogStore(print: (line: string) => void): Promise<void> {
  const directory = await mkdtemp(path.join(tmpdir(), 'saltbridge-bench-'));
  const servers = await startNatsServers(directory, 3);
  const urls = servers.map(({ url }) => url);
  const given = { secret: Buffer.alloc(32, 7), cluster: 'bench' };
  const connect = () =>
    openJetStreamLog({
      servers: urls,
      cluster: 'bench',
      create: { replicas: 3 },
      connectTimeoutMs: 60_000,
    });
  const open = async (member: string): Promise<LogStore> =>
    openLogStore({
      ...given,
      log: await connect(),
      directory: path.join(directory, member),
      member,
    });
  const stores: LogStore[] = [];
  try {
    const log = await connect();
    await foundLog({ ...given, log });
    await log.close();
    stores.push(await open('a'), await open('b'));
    const [first] = stores;
    if (first === undefined) return;
    let written = 0;
    for (const inFlight of [1, 64, 512]) {
      const { count, p50 } = await measure(first, inFlight);
      written += count;
      const rate = Math.round((count / measuredMs) * 1000);
      print(`${inFlight} in flight: ${rate} durable writes/s, p50 ${p50.toFixed(1)} ms`);
    }
    const start = performance.now();
    stores.push(await open('c'));
    const rate = Math.round((written / (performance.now() - start)) * 1000);
    print(`a new member replays ${rate} transactions/s`);
  } finally {
    for (const store of stores) await store.close();
    for (const server of servers) await server.kill();
    await rm(directory, { recursive: true, force: true });
  }
}

async function measure(
  store: LogStore,
  inFlight: number,
): Promise<{ readonly count: number; readonly p50: number }> {
  const end = performance.now() + measuredMs;
  const times: number[] = [];
  const writer = async (_: unknown, lane: number): Promise<void> => {
    for (let i = 0; performance.now() < end; i += 1) {
      const start = performance.now();
      await store.write([{ op: 'put', key: ['bench', String(lane), String(i)], value }]);
      times.push(performance.now() - start);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, writer));
  times.sort((a, b) => a - b);
  return { count: times.length, p50: times[Math.floor(times.length / 2)] ?? 0 };
}
