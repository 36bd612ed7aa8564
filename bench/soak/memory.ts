import { readFileSync } from 'node:fs';

/** Memory of this process, megabytes. */
export interface MemorySample {
  /** Seconds since the load began. */
  readonly at: number;
  readonly resident: number;
  /**
   * Resident without mapped files: the store's file is mapped, and the pages of it that are in
   * memory belong to the system, which takes them back. Where the system does not tell: all.
   */
  readonly anonymous: number;
  /** In use on V8's heap. */
  readonly heap: number;
}

/** Samples taken before this many seconds say nothing of growth: everything is filling up. */
export const warmUpSeconds = 60;

export function sampleMemory(at: number): MemorySample {
  const { rss, heapUsed } = process.memoryUsage();
  return {
    at,
    resident: rss / 1e6,
    anonymous: anonymousMegabytes() ?? rss / 1e6,
    heap: heapUsed / 1e6,
  };
}

/** Linux tells it, in units of 1,024 bytes. */
function anonymousMegabytes(): number | undefined {
  try {
    const line = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'latin1'));
    return line === null ? undefined : (Number(line[1]) * 1024) / 1e6;
  } catch {
    return undefined;
  }
}

/** What was sampled after everything had filled up; all of it where the run was shorter. */
export function warm(samples: readonly MemorySample[]): readonly MemorySample[] {
  const later = samples.filter(({ at }) => at > warmUpSeconds);
  return later.length > 0 ? later : samples;
}

/** By how many megabytes a minute a figure grew, by least squares over the samples. */
export function growthPerMinute(
  samples: readonly MemorySample[],
  figure: 'resident' | 'anonymous' | 'heap',
): number {
  const meanAt = mean(samples.map(({ at }) => at));
  const meanValue = mean(samples.map((sample) => sample[figure]));
  let product = 0;
  let square = 0;
  for (const sample of samples) {
    product += (sample.at - meanAt) * (sample[figure] - meanValue);
    square += (sample.at - meanAt) ** 2;
  }
  return square === 0 ? 0 : (product / square) * 60;
}

export function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}
