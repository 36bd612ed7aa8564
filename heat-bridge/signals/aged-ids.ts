/** Ids of signals, in the order in which they expire. */

import type { SharedArea, StateChange, StateOperation } from '#master';

/** Maximum number of ids. When it is exceeded, the oldest id is removed. */
const maxIds = 10_000;

/**
 * Ids of the signals in the dead-letter list or in the delivered list, each with its expiry, the
 * oldest first.
 */
export class AgedIds {
  readonly #part: 'dead' | 'delivered';
  readonly #expiry = new Map<string, number>();

  constructor(part: 'dead' | 'delivered') {
    this.#part = part;
  }

  /** Loads the stored ids. In a cluster, also adds the ids that other members store. */
  async follow(state: SharedArea): Promise<void> {
    await state.follow(['signals', this.#part], (change) => this.#note(change));
    const found = [...this.#expiry].sort(([, a], [, b]) => a - b);
    this.#expiry.clear();
    for (const [id, expiresAt] of found) this.#expiry.set(id, expiresAt);
  }

  get size(): number {
    return this.#expiry.size;
  }

  /**
   * Adds an id.
   * @returns the store operations that add its row. Above the limit, they also delete the oldest
   * row.
   */
  put(id: string, value: Uint8Array, expiresAt: number): readonly StateOperation[] {
    this.#expiry.set(id, expiresAt);
    const put = { op: 'put', key: ['signals', this.#part, id], value, expiresAt } as const;
    const [oldest] = this.#expiry.keys();
    if (this.#expiry.size <= maxIds || oldest === undefined) return [put];
    this.#expiry.delete(oldest);
    return [put, { op: 'delete', key: ['signals', this.#part, oldest] }];
  }

  remove(id: string): void {
    this.#expiry.delete(id);
  }

  /** Removes the expired ids from memory. */
  expire(now: number): void {
    for (const [id, expiresAt] of this.#expiry) {
      if (expiresAt > now) return;
      this.#expiry.delete(id);
    }
  }

  /**
   * Applies a stored row to memory. Only the id is read, because all dead letters together can be
   * as large as the outbox.
   */
  #note(change: StateChange): void {
    if (change.type === 'delete') this.#expiry.delete(change.key.at(-1) ?? '');
    else this.#expiry.set(change.entry.key.at(-1) ?? '', change.entry.expiresAt ?? 0);
  }
}
