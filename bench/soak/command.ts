import { limitHeapGrowth } from '#server/process/heap-growth.ts';
import type { MemorySample } from './memory.ts';
import { type SoakLoad, soak } from './soak.ts';
import { complaints, memoryLine, summary } from './verdict.ts';

const fullLoad: SoakLoad = {
  minions: 500,
  eventsPerSecond: 2000,
  jobsPerSecond: 50,
  reconnectsPerSecond: 2,
  deletionEveryMs: 5000,
};
const secondsPerLine = 30;

/**
 * Runs `npm run bench -- soak [seconds] [share]`.
 * @param share - share of the full load, for machines that have other work too
 * @returns the exit code: 1 if a check failed
 */
export async function runSoak(
  seconds: number,
  share: number,
  print: (line: string) => void,
): Promise<number> {
  if (!(Number.isInteger(seconds) && seconds > 0 && share > 0 && share <= 1)) {
    print('soak: give a whole number of seconds, and a share of the load above 0 and at most 1');
    return 64;
  }
  const load = {
    ...fullLoad,
    minions: Math.ceil(fullLoad.minions * share),
    eventsPerSecond: fullLoad.eventsPerSecond * share,
    jobsPerSecond: fullLoad.jobsPerSecond * share,
  };
  limitHeapGrowth();
  print(`# soak of ${seconds} s: ${JSON.stringify(load)}`);
  let samples: MemorySample[] = [];
  const result = await soak(load, seconds, (sample, counts, jobs) => {
    samples.push(sample);
    if (samples.length < secondsPerLine) return;
    print(
      `${memoryLine(samples)}  requests ${counts.sent}  waiting ${counts.waiting}  jobs ${jobs.finished}`,
    );
    samples = [];
  });
  for (const line of summary(result)) print(line);
  const wrong = complaints(result);
  for (const line of wrong) print(`WRONG: ${line}`);
  print(wrong.length === 0 ? 'all is well' : 'not well');
  return wrong.length === 0 ? 0 : 1;
}
