/**
 * Measures the work of the main thread: the blocks of JavaScript that it executes, which do not
 * depend on the speed of the machine, and the processor time of its steps.
 */

import { Session } from 'node:inspector';

interface Coverage {
  readonly result: readonly {
    readonly url: string;
    readonly functions: readonly {
      readonly functionName: string;
      readonly ranges: readonly { readonly count: number }[];
    }[];
  }[];
}

/** Function with many executed blocks. */
interface BusyFunction {
  readonly place: string;
  readonly blocks: number;
}

export interface Work {
  /** Number of executed blocks of the master and its packages. */
  readonly blocks: number;
  /** The function that executed most of these blocks. */
  readonly busiest: BusyFunction;
}

/**
 * Counter of executed blocks. Create it before the modules of the master are loaded, because V8
 * counts only functions that it compiles later.
 */
export class BlockCounter {
  readonly #session = new Session();

  constructor() {
    this.#session.connect();
    this.#session.post('Profiler.enable');
    this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
  }

  /** Returns the work since the last call. */
  take(): Work {
    let blocks = 0;
    let busiest: BusyFunction = { place: '', blocks: 0 };
    // The session belongs to this thread, so the callback runs before `post` returns.
    this.#session.post('Profiler.takePreciseCoverage', (error, coverage) => {
      if (error !== null) throw error;
      for (const { url, functions } of (coverage as Coverage).result) {
        if (!url.startsWith('file:') || url.includes('/test/')) continue;
        for (const { functionName, ranges } of functions) {
          const own = ranges.reduce((sum, { count }) => sum + count, 0);
          blocks += own;
          if (own > busiest.blocks) {
            busiest = {
              place: `${functionName} ${url.split('/').slice(-3).join('/')}`,
              blocks: own,
            };
          }
        }
      }
    });
    return { blocks, busiest };
  }
}

/**
 * Measures the steps of the event loop in processor time. A step is the work between two samples,
 * for example of all connections that have data. A timer takes samples about every millisecond.
 */
export class StepSampler {
  readonly #timer = setInterval(() => this.#sample(), 1).unref();
  #used = process.threadCpuUsage();
  #longestMs = 0;

  begin(): void {
    this.#sample();
    this.#longestMs = 0;
  }

  /** Returns the processor time of the longest step since {@link begin}, in milliseconds. */
  longest(): number {
    this.#sample();
    return this.#longestMs;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #sample(): void {
    const used = process.threadCpuUsage();
    const microseconds = used.user + used.system - this.#used.user - this.#used.system;
    this.#used = used;
    this.#longestMs = Math.max(this.#longestMs, microseconds / 1000);
  }
}
