import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { SoakCounts, SoakOrder, SoakOutcome } from './orders.ts';

const program = fileURLToPath(new URL('./program.ts', import.meta.url));

/** Process with the simulated minions, as seen by the process of the master. */
export class SwarmProcess {
  /** Failures in the process that are not related to an order. */
  readonly failures: string[] = [];
  readonly #child: ChildProcess = fork(program);
  readonly #ended: Promise<never>;

  constructor() {
    this.#child.on('message', (outcome: SoakOutcome) => {
      if ('failure' in outcome) this.failures.push(outcome.failure);
    });
    this.#ended = once(this.#child, 'exit').then(([code]) => {
      throw new Error(`the process with the simulated minions ended with ${code}`);
    });
    // The order in progress, or the next one, reports the failure.
    this.#ended.catch(() => {});
  }

  /**
   * Sends an order.
   * @returns the results of all requests up to the end of the order
   */
  async order(what: SoakOrder): Promise<SoakCounts> {
    const outcome = this.#outcome();
    this.#child.send(what);
    return Promise.race([outcome, this.#ended]);
  }

  close(): void {
    if (this.#child.connected) this.#child.disconnect();
  }

  async #outcome(): Promise<SoakCounts> {
    for (;;) {
      const [outcome]: SoakOutcome[] = await once(this.#child, 'message');
      if (outcome === undefined || 'failure' in outcome) continue;
      if ('error' in outcome) throw new Error(outcome.error);
      return outcome.counts;
    }
  }
}
