/**
 * Hours of work in minutes: minions that fire events, answer jobs, lose their connections and
 * their keys, under the master's own limits. At the end no request may be without an answer, and
 * the master's memory must not have grown since it was warm.
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

/** What is kept up, if the machine can: what it cannot is not made up for. */
export interface SoakLoad {
  readonly minions: number;
  readonly eventsPerSecond: number;
  readonly jobsPerSecond: number;
  readonly reconnectsPerSecond: number;
  readonly deletionEveryMs: number;
}

/** Everything that a verdict is made from. */
export interface SoakResult {
  readonly load: SoakLoad;
  readonly seconds: number;
  readonly counts: SoakCounts;
  readonly jobs: JobLoad['figures'];
  readonly deletions: number;
  /** Whose keys were deleted at some time. */
  readonly deleted: ReadonlySet<string>;
  /** One a second. */
  readonly memory: readonly MemorySample[];
  /** Refused, delayed or dropped by the master, by reason. */
  readonly counters: Readonly<Record<string, number>>;
  /** What failed where nothing may. */
  readonly failures: readonly string[];
}

const keyCount = 16;
/** As long as Salt's clients wait for an answer. */
const graceMs = 60_000;

/**
 * @param seconds how long the load is kept up
 * @param onSample told once a second
 */
export async function soak(
  load: SoakLoad,
  seconds: number,
  onSample: (sample: MemorySample, counts: SoakCounts, jobs: JobLoad['figures']) => void,
): Promise<SoakResult> {
  const rootDir = await mkdtemp(path.join(tmpdir(), 'sb-'));
  // Kept for a minute, so that what is stored is removed within the run as well.
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
