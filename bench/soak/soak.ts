/**
 * Runs the work of hours within minutes: minions emit events, respond to jobs, and lose their
 * connections and keys, under the master's default limits. At the end, every request must have a
 * reply, and the master's memory must not have grown after the first minute.
 */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Master } from '#master';
import { createMaster } from '#server';
import { benchConfig } from '../config.ts';
import { makeKeyTexts } from '../swarm/keys.ts';
import { KeyDeletions } from './deletions.ts';
import { JobLoad } from './jobs.ts';
import { type MemorySample, sampleMemory } from './memory.ts';
import type { SoakCounts } from './orders.ts';
import { SwarmProcess } from './swarm-process.ts';

/** Load that the benchmark tries to produce. If the machine is too slow, the load is lower. */
export interface SoakLoad {
  readonly minions: number;
  readonly eventsPerSecond: number;
  readonly jobsPerSecond: number;
  readonly reconnectsPerSecond: number;
  readonly deletionEveryMs: number;
}

/** Data from which the verdict is derived. */
export interface SoakResult {
  readonly load: SoakLoad;
  readonly seconds: number;
  readonly counts: SoakCounts;
  readonly jobs: JobLoad['figures'];
  readonly deletions: number;
  /** Ids of the minions whose key was deleted at least once. */
  readonly deleted: ReadonlySet<string>;
  /** Samples of the master's memory, one per second. */
  readonly memory: readonly MemorySample[];
  /** Requests that the master rejected, delayed or dropped, by reason. */
  readonly counters: Readonly<Record<string, number>>;
  /** Failures that must not happen. */
  readonly failures: readonly string[];
}

const keyCount = 16;
/** Time to wait for replies at the end, in milliseconds. Salt's clients wait as long. */
const graceMs = 60_000;

/**
 * Runs the soak test.
 * @param seconds - duration of the load
 * @param onSample - called once per second
 */
export async function soak(
  load: SoakLoad,
  seconds: number,
  onSample: (sample: MemorySample, counts: SoakCounts, jobs: JobLoad['figures']) => void,
): Promise<SoakResult> {
  const rootDir = await mkdtemp(path.join(tmpdir(), 'sb-'));
  // Jobs are stored for a minute only, so that stored data is also deleted during the run.
  const config = benchConfig(rootDir, { keepJobsSeconds: 60 });
  const ids = Array.from({ length: load.minions }, (_, index) => `soak-${index}`);
  const keys = await makeKeyTexts(keyCount);
  const directory = path.join(config.pkiDir, 'minions');
  await mkdir(directory, { recursive: true, mode: 0o700 });
  for (const [index, id] of ids.entries()) {
    await writeFile(path.join(directory, id), keys[index % keys.length]?.publicPem ?? '');
  }
  const master = createMaster({ config });
  await master.start();
  const swarm = new SwarmProcess();
  try {
    const { requestPort, publishPort } = await master.status();
    await swarm.order({ do: 'enlist', ids, keys, requestPort, publishPort });
    await swarm.order({ do: 'start' });
    return await run(master, swarm, ids, load, seconds, onSample);
  } finally {
    swarm.close();
    await master.close();
    await rm(rootDir, { recursive: true, force: true });
  }
}

async function run(
  master: Master,
  swarm: SwarmProcess,
  ids: readonly string[],
  load: SoakLoad,
  seconds: number,
  onSample: Parameters<typeof soak>[2],
): Promise<SoakResult> {
  const failures: string[] = [];
  const onError = (error: unknown): void => {
    failures.push(error instanceof Error ? String(error.stack) : String(error));
  };
  const jobs = new JobLoad(master, ids);
  const deletions = new KeyDeletions(master, ids);
  const { eventsPerSecond, reconnectsPerSecond } = load;
  await swarm.order({ do: 'load', eventsPerSecond, reconnectsPerSecond });
  jobs.start(load.jobsPerSecond, onError);
  deletions.start(load.deletionEveryMs, onError);
  const memory: MemorySample[] = [];
  const startedAt = performance.now();
  for (let second = 1; second <= seconds; second += 1) {
    await pause(Math.max(0, startedAt + second * 1000 - performance.now()));
    const sample = sampleMemory(second);
    memory.push(sample);
    onSample(sample, await swarm.order({ do: 'report' }), jobs.figures);
  }
  deletions.pause();
  await swarm.order({ do: 'rest' });
  await jobs.stop();
  const counts = await swarm.order({ do: 'drain', graceMs });
  await deletions.stop();
  return {
    load,
    seconds,
    counts,
    jobs: jobs.figures,
    deletions: deletions.count,
    deleted: deletions.deleted,
    memory,
    counters: (await master.status()).counters,
    failures: [...failures, ...swarm.failures],
  };
}
