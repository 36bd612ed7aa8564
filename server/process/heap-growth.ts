import { getHeapStatistics, setFlagsFromString } from 'node:v8';

/**
 * Maximum growth of the heap between two major garbage collections, in bytes. Applies to heaps from
 * 20 to 100 MiB. For other heaps, see {@link limitHeapGrowth}.
 */
const growthBytes = 20 * 1024 * 1024;
const minPercent = 20;
const maxPercent = 100;
const checkEveryMs = 5000;

/**
 * Limits the growth of the heap between two major garbage collections. A heap smaller than 20 MiB
 * may double. A heap from 20 to 100 MiB may grow by 20 MiB. A larger heap may grow by 20 %.
 *
 * With the limit, a master with 15,000 minions uses about 130 MB less after a burst of returns. A
 * limit of 20 % for small heaps too would be too strict: garbage collection would take a third of
 * the CPU time of a return (docs/BENCHMARKS.md).
 *
 * Call this function only in master processes, because it affects the whole process.
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
