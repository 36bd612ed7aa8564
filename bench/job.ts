/**
 * Measures the time that the master adds to a job on one minion, from the call to its end. The job
 * is `test.ping` over real ZeroMQ sockets, to a minion that responds from memory. Jobs run one
 * after the other.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Master } from '#master';
import { createMinion, createMinionKeys, dialZeromq } from '#minion-protocol';
import { createMaster } from '#server';
import { benchConfig } from './config.ts';

/** Durations, in milliseconds. */
export interface JobFigures {
  readonly startMs: number;
  readonly medianMs: number;
  readonly p99Ms: number;
}

/**
 * Runs the benchmark.
 * @param count - number of measured jobs; a tenth as many jobs run before, without being measured
 */
export async function benchJob(count = 1000): Promise<JobFigures> {
  const rootDir = await mkdtemp(path.join(tmpdir(), 'sb-'));
  const config = benchConfig(rootDir, { autoAccept: true, limits: { requestsPerSecond: 0 } });
  const master = createMaster({ config });
  const startedAt = performance.now();
  await master.start();
  const startMs = performance.now() - startedAt;
  const { requestPort } = await master.status();
  const minion = createMinion({
    id: 'bench',
    keys: await createMinionKeys(),
    transport: dialZeromq({ host: '127.0.0.1', requestPort }),
  });
  try {
    await minion.start();
    for (let index = 0; index < count / 10; index += 1) await timeJob(master);
    const times: number[] = [];
    for (let index = 0; index < count; index += 1) times.push(await timeJob(master));
    times.sort((left, right) => left - right);
    return { startMs, medianMs: quantile(times, 0.5), p99Ms: quantile(times, 0.99) };
  } finally {
    await minion.stop();
    await master.close();
    await rm(rootDir, { recursive: true, force: true });
  }
}

async function timeJob(master: Master): Promise<number> {
  const startedAt = performance.now();
  for await (const update of master.jobs.run({ tgt: 'bench', fun: 'test.ping' })) {
    if (update.type === 'finished' && update.answered.length !== 1) {
      throw new Error('the minion did not answer');
    }
  }
  return performance.now() - startedAt;
}

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
}
