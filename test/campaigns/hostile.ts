/** Sends hostile values to every entry of the tables of requests, routes, methods and commands. */

import { bounds } from './hostile/matrix.ts';
import { runMatrixProcess } from './hostile/run-matrix.ts';

/** Processor time of a step that is a problem on any machine, in milliseconds. */
const maxStepMs = 1_000;

/**
 * Largest growth of the memory in use in the second half of a run. In the first half, the tables of
 * users, jobs and tokens fill up.
 */
const maxGrowth = 1.1;

/**
 * Runs the matrix: half of the time with counts, half of the time with measurements.
 * @returns 1 if there were problems
 */
export async function runHostile(
  [seed = String(Date.now() % 1_000_000), minutes = '10']: readonly string[],
  print: (line: string) => void,
): Promise<number> {
  print(`hostile ${seed} ${minutes}`);
  const durationMs = Number(minutes) * 30_000;
  const plan = { seed: Number(seed), rounds: 1e9, durationMs };
  const counted = await runMatrixProcess(plan);
  const measured = await runMatrixProcess({ ...plan, measuresTime: true });
  const problems = [...counted.problems, ...measured.problems, ...missingOf(counted.missing)];
  print(`cases: ${counted.cases} with counts, ${measured.cases} with measurements`);
  for (const [name, largest] of Object.entries(counted.largest)) {
    print(`${name} (maximum ${bounds[name as keyof typeof bounds]}): ${largest}`);
  }
  const { stepMs = 0, longest = [], memoryOfQuarters = [], memory = 0 } = measured.measured ?? {};
  print(
    `in 99.9 % of the turns, the longest step took less than ${stepMs.toFixed(1)} ms of the processor`,
  );
  for (const { ms, where } of longest) {
    print(`step of ${ms.toFixed(1)} ms: ${where}`);
    // Copies that built-in functions make are not counted as blocks.
    if (ms > maxStepMs) problems.push(`${where}: a step took ${ms} ms of the processor`);
  }
  const megabytes = [...memoryOfQuarters, memory].map((it) => it.toFixed(1));
  print(`memory in use after each quarter: ${megabytes.join(', ')} MB`);
  const [, middle = 0] = memoryOfQuarters;
  if (memory > middle * maxGrowth) problems.push('the memory in use grew by more than a tenth');
  for (const problem of problems) print(`PROBLEM ${problem}`);
  print(problems.length === 0 ? 'nothing was wrong' : `${problems.length} problems`);
  return problems.length === 0 ? 0 : 1;
}

function missingOf(names: readonly string[]): readonly string[] {
  return names.map((name) => `${name} has no row`);
}
