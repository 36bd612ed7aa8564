/** Measures a centre and its sites: releases, pillars, the return of all sites, a long absence. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type EdgePlan, runEdgePlan } from './edge/run.ts';
import { wholeSizes } from './edge/source.ts';

/** Largest ratio of the bytes through the centre to the size of the packs. */
const maxTraffic = 1.1;

/** Maximum number of bytes of each site beyond the packs of a small delta. */
const maxExtraBytes = 1200;

const maxIdleMemory = 150 * 2 ** 20;
const maxIdleProcessor = 0.05;

/** Maximum durations after the return of the centre, in seconds. */
const maxAlarmSeconds = 60;
const maxBacklogSeconds = 300;

/**
 * Runs the campaign. The directory of all masters is below TMPDIR.
 * @returns 1 if a figure is outside its bound
 */
export async function runEdge(
  [seed = '1', sites = '20']: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  print(`edge ${seed} ${sites}`);
  const plan: EdgePlan = {
    seed: Number(seed),
    sites: Number(sites),
    sitesOfProcess: 200,
    sizes: wholeSizes,
    backlog: { alarms: 5, returns: 100, bytesOfReturn: 10_000 },
    absence: {
      hours: 72,
      logBytes: 8 * 2 ** 20,
      returnsPerHour: 160,
      bytesOfReturn: 1000,
      factsEvery: 1,
    },
    idleMs: 30_000,
    awayMs: 120_000,
    stepMs: 1_200_000,
  };
  const directory = await mkdtemp(path.join(tmpdir(), 'saltbridge-edge-'));
  try {
    const { idle, small, delta, returned, problems } = await runEdgePlan(plan, directory, print);
    const found = [...problems];
    const bound = (what: string, value: number, most: number): void => {
      if (value > most) found.push(`${what}: ${value.toFixed(3)}, more than ${most}`);
    };
    bound('traffic of the delta', delta.bytesOfSite / delta.packBytes, maxTraffic);
    bound('bytes beyond a small delta', small.bytesOfSite - small.packBytes, maxExtraBytes);
    bound('memory of the idle centre', idle?.memoryBytes ?? 0, maxIdleMemory);
    bound('processor of the idle centre', idle?.cpu ?? 0, maxIdleProcessor);
    bound('seconds until all alarms', returned.alarmSeconds, maxAlarmSeconds);
    bound('seconds until everything', returned.seconds, maxBacklogSeconds);
    for (const problem of found) print(`PROBLEM ${problem}`);
    print(found.length === 0 ? 'nothing was wrong' : `${found.length} problems`);
    return found.length === 0 ? 0 : 1;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
