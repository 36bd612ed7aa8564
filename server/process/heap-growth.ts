import { getHeapStatistics, setFlagsFromString } from 'node:v8';

/** Growth of a master's heap between collections, in bytes. */
const growthBytes = 20 * 1024 * 1024;
const minPercent = 20;
const maxPercent = 100;
const checkEveryMs = 5000;

/**
 * Limits the growth of the heap between collections to 20 MB, or to a fifth if that is more. By
 * default, V8 would let it double. After a burst of returns, a master with 15,000 minions then uses
 * about 130 MB less. A fifth of a small heap fills quickly, and collecting it would take a third of
 * the time that returns take (docs/BENCHMARKS.md). Only for master processes: a library leaves V8
 * to its program.
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
