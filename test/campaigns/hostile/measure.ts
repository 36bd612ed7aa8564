/**
 * Counts the blocks of JavaScript that the main thread executes. The count does not depend on the
 * speed of the machine.
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
