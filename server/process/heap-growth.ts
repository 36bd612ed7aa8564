import { getHeapStatistics, setFlagsFromString } from 'node:v8';

/** How much the heap of a master may grow before it is collected. */
const growthBytes = 20 * 1024 * 1024;
const minPercent = 20;
const maxPercent = 100;
const checkEveryMs = 5000;

/**
 * Lets the heap grow by 20 MB before it is collected, or by a fifth where that is more, while V8
 * would let it double: after a burst of returns a master keeps some 130 MB less for 15,000 minions.
 * A fifth of a small heap is soon full; then collecting it takes a third of the time that returns
 * take (docs/BENCHMARKS.md). Only for a process that is a master; a library leaves V8 to its program.
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
