import { readFileSync } from 'node:fs';

/** Memory of this process, in megabytes. */
export interface MemorySample {
  /** Time since the load began, in seconds. */
  readonly at: number;
  readonly resident: number;
  /**
   * Resident memory without mapped files. The store's file is mapped, but the system can reclaim
   * its pages at any time. If the system does not report it, this is the whole resident memory.
   */
  readonly anonymous: number;
  /** Used memory of V8's heap. */
  readonly heap: number;
}

/**
 * Samples from the first seconds are ignored when growth is computed, because caches are still
 * filling up.
 */
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

/** Returns the anonymous memory. Linux reports it in units of 1,024 bytes. */
function anonymousMegabytes(): number | undefined {
  try {
    const line = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'latin1'));
    return line === null ? undefined : (Number(line[1]) * 1024) / 1e6;
  } catch {
    return undefined;
  }
}

/** Returns the samples after the warm-up. If the run was shorter, returns all samples. */
export function warm(samples: readonly MemorySample[]): readonly MemorySample[] {
  const later = samples.filter(({ at }) => at > warmUpSeconds);
  return later.length > 0 ? later : samples;
}

/** Returns the growth of a figure in megabytes per minute, by the method of least squares. */
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
