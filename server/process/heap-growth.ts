import { getHeapStatistics, setFlagsFromString } from 'node:v8';

/** Maximum growth of a master's heap between two major garbage collections, in bytes. */
const growthBytes = 20 * 1024 * 1024;
const minPercent = 20;
const maxPercent = 100;
const checkEveryMs = 5000;

/**
 * Limits the growth of the heap between two major garbage collections to 20 MB, or to a fifth of a
 * heap larger than 100 MB. By default, V8 may let the heap double. With the limit, a master with
 * 15,000 minions uses about 130 MB less after a burst of returns. A lower limit would collect a
 * small heap too often. The collections would then cost a third of the time spent on returns
 * (docs/BENCHMARKS.md). Must be called in master processes only, because it affects the whole
 * process.
 */
export function limitHeapGrowth(): void {
  adjustHeapGrowth();
  setInterval(adjustHeapGrowth, checkEveryMs).unref();
}

function adjustHeapGrowth(): void {
  const wanted = Math.round((100 * growthBytes) / getHeapStatistics().used_heap_size);
  const percent = Math.min(Math.max(wanted, minPercent), maxPercent);
  setFlagsFromString(`--heap-growing-percent=${percent}`);
}
