import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { SoakCounts, SoakOrder, SoakOutcome } from './orders.ts';

const program = fileURLToPath(new URL('./program.ts', import.meta.url));

/** The process of the simulated minions, as the one of the master sees it. */
export class SwarmProcess {
  /** What failed in it beside its orders. */
  readonly failures: string[] = [];
  readonly #child: ChildProcess = fork(program);
  readonly #ended: Promise<never>;

  constructor() {
    this.#child.on('message', (outcome: SoakOutcome) => {
      if ('failure' in outcome) this.failures.push(outcome.failure);
    });
    this.#ended = once(this.#child, 'exit').then(([code]) => {
      throw new Error(`the swarm's process ended: ${code}`);
    });
    // Told by the order that is under way, or the next one.
    this.#ended.catch(() => {});
  }

  /** @returns what became of all requests until the order was carried out */
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
