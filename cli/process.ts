import { getHeapStatistics, setFlagsFromString } from 'node:v8';

/**
 * Waits for SIGTERM or SIGINT. The second one ends the process at once, for a close that hangs.
 */
export function terminationSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let isEnding = false;
    const end = (signal: NodeJS.Signals, number: number): void => {
      if (isEnding) process.exit(128 + number);
      isEnding = true;
      resolve(signal);
    };
    process.on('SIGINT', () => end('SIGINT', 2));
    process.on('SIGTERM', () => end('SIGTERM', 15));
  });
}

/** Fires at the first Ctrl-C; the second one ends the process at once. */
export function interruptionSignal(): AbortSignal {
  const controller = new AbortController();
  process.on('SIGINT', () => {
    if (controller.signal.aborted) process.exit(130);
    controller.abort();
  });
  return controller.signal;
}

/**
 * Calls `act` at each signal of this name, one call after the other, instead of what Node does.
 * @param act - must not throw
 */
export function onSignal(name: NodeJS.Signals, act: () => Promise<void> | void): void {
  let last = Promise.resolve();
  process.on(name, () => {
    last = last.then(act);
  });
}

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
