/**
 * Measures the transfer of files to many minions. The master runs in this process. The simulated
 * minions run in another process, and decrypt and check every part. The rate limit of files has its
 * default value.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { createMaster } from '#server';
import { benchConfig } from './config.ts';
import { makeKeyTexts } from './swarm/keys.ts';
import { order } from './swarm/order.ts';

/** Figures of the file server. */
export interface FileServerFigures {
  /** Throughput to eight minions at the same time, in megabytes per second. */
  readonly megabytesPerSecond: number;
  /** Processor time of the master per gigabyte, in seconds. */
  readonly cpuSecondsPerGigabyte: number;
  readonly residentMegabytesBefore: number;
  /** Maximum resident memory while files were served, in megabytes. */
  readonly residentMegabytesPeak: number;
  /** Processor time of the master for one list of 2,000 files, in milliseconds. */
  readonly oneListMs: number;
  /** Processor time for each of 500 lists that are requested at the same time, in milliseconds. */
  readonly eachOf500ListsMs: number;
}

const program = fileURLToPath(new URL('./swarm/program.ts', import.meta.url));
const downloaders = 8;
const rounds = 3;
const fileMegabytes = 50;
const listers = 500;
const listedFiles = 2_000;

export async function benchFileServer(): Promise<FileServerFigures> {
  const rootDir = await mkdtemp(path.join(tmpdir(), 'sb-'));
  const srv = path.join(rootDir, 'srv');
  const config = benchConfig(rootDir, {
    autoAccept: true,
    fileRoots: { base: [srv] },
    limits: { authsPerSecond: 0 },
  });
  await mkdir(srv, { recursive: true });
  await writeFile(path.join(srv, 'big'), Buffer.alloc(fileMegabytes * 1e6, 0xff));
  for (let index = 0; index < listedFiles; index += 1) {
    await mkdir(path.join(srv, `d${index % 50}`), { recursive: true });
    await writeFile(path.join(srv, `d${index % 50}`, `${index}.sls`), '');
  }
  const master = createMaster({ config });
  await master.start();
  const swarm = fork(program);
  try {
    const { requestPort } = await master.status();
    const keys = await makeKeyTexts(16);
    await order(swarm, { do: 'enlist', count: listers, keys, requestPort, connections: 64 });
    await order(swarm, { do: 'sign-in', concurrency: 64 });
    return { ...(await measureLists(swarm)), ...(await measureFiles(swarm)) };
  } finally {
    swarm.disconnect();
    await master.close();
    await rm(rootDir, { recursive: true, force: true });
  }
}

async function measureLists(
  swarm: ChildProcess,
): Promise<Pick<FileServerFigures, 'oneListMs' | 'eachOf500ListsMs'>> {
  // The first request packs the list. Later requests use the packed list, and are measured one
  // after the other.
  await order(swarm, { do: 'file-lists', count: 1 });
  const one = await cpuSeconds(async () => {
    for (let round = 0; round < 20; round += 1) {
      await order(swarm, { do: 'file-lists', count: 1 });
    }
  });
  const all = await cpuSeconds(() => order(swarm, { do: 'file-lists', count: listers }));
  return { oneListMs: (one / 20) * 1000, eachOf500ListsMs: (all / listers) * 1000 };
}

async function measureFiles(
  swarm: ChildProcess,
): Promise<Omit<FileServerFigures, 'oneListMs' | 'eachOf500ListsMs'>> {
  const fetchAll = (): Promise<number> =>
    order(swarm, { do: 'files', count: downloaders, path: 'big' });
  await fetchAll();
  const before = process.memoryUsage.rss();
  let peak = before;
  const watch = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage.rss());
  }, 20);
  const megabytes = rounds * downloaders * fileMegabytes;
  let ms = 0;
  const cpu = await cpuSeconds(async () => {
    for (let round = 0; round < rounds; round += 1) ms += await fetchAll();
  });
  clearInterval(watch);
  return {
    megabytesPerSecond: (megabytes / ms) * 1000,
    cpuSecondsPerGigabyte: (cpu / megabytes) * 1000,
    residentMegabytesBefore: before / 1e6,
    residentMegabytesPeak: peak / 1e6,
  };
}

async function cpuSeconds(work: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}
