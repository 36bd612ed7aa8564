/** Whether a minion is connected to another member of the cluster. */

import { randomUUID } from 'node:crypto';
import type { Cluster } from '#master';
import { inMilliseconds } from '#runtime';

/** Members that say nothing for so long do not have it. */
const answerMs = 1000;

/** Members ask each other beside the log: a message that is lost makes a minion seem away. */
export class ClusterPresence {
  readonly #cluster: Pick<Cluster, 'onMessage' | 'send'>;
  readonly #asked = new Map<string, () => void>();

  /** @param here - the minions that are connected to this member */
  constructor(cluster: Pick<Cluster, 'onMessage' | 'send'>, here: { has(id: string): boolean }) {
    this.#cluster = cluster;
    cluster.onMessage('is-present', ({ number, id }) => {
      if (typeof number !== 'string' || typeof id !== 'string') return;
      if (here.has(id)) cluster.send('present', { number });
    });
    cluster.onMessage('present', ({ number }) => this.#asked.get(String(number))?.());
  }

  /** Whether the minion is connected to another member. */
  async isConnected(id: string): Promise<boolean> {
    const number = randomUUID();
    const answered = new Promise<true>((resolve) => {
      this.#asked.set(number, () => resolve(true));
    });
    this.#cluster.send('is-present', { number, id });
    try {
      return (await inMilliseconds(answered, answerMs)) === true;
    } finally {
      this.#asked.delete(number);
    }
  }
}
