/** Whether a minion is connected to any member of the cluster. */

import { randomUUID } from 'node:crypto';
import { inMilliseconds } from '#runtime';
import type { Cluster } from '../context/index.ts';

/** Milliseconds that a look at all minions is good for: many may be asked for at once. */
const lookMs = 1000;
/** Members that say nothing for so long do not have it. */
const answerMs = 1000;

export interface ClusterPresenceOptions {
  /** `undefined`: there are no other members. */
  readonly cluster: Pick<Cluster, 'onMessage' | 'send'> | undefined;
  /** Ids of the minions that are connected to this member. */
  readonly present: () => readonly string[];
}

/** Members ask each other beside the log: a message that is lost makes a minion seem away. */
export class ClusterPresence {
  readonly #options: ClusterPresenceOptions;
  readonly #asked = new Map<string, () => void>();
  #here: ReadonlySet<string> = new Set();
  #lookedAt = -Infinity;

  constructor(options: ClusterPresenceOptions) {
    this.#options = options;
    const { cluster } = options;
    cluster?.onMessage('is-present', ({ number, id }) => {
      if (typeof number !== 'string' || typeof id !== 'string') return;
      if (this.#isHere(id)) cluster.send('present', { number });
    });
    cluster?.onMessage('present', ({ number }) => this.#asked.get(String(number))?.());
  }

  async isConnected(id: string): Promise<boolean> {
    return this.#isHere(id) || (await this.#isElsewhere(id));
  }

  #isHere(id: string): boolean {
    if (performance.now() - this.#lookedAt >= lookMs) {
      this.#here = new Set(this.#options.present());
      this.#lookedAt = performance.now();
    }
    return this.#here.has(id);
  }

  async #isElsewhere(id: string): Promise<boolean> {
    const { cluster } = this.#options;
    if (cluster === undefined) return false;
    const number = randomUUID();
    const answered = new Promise<true>((resolve) => {
      this.#asked.set(number, () => resolve(true));
    });
    cluster.send('is-present', { number, id });
    try {
      return (await inMilliseconds(answered, answerMs)) === true;
    } finally {
      this.#asked.delete(number);
    }
  }
}
