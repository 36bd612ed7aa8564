/** Ids by the time at which they end. */

import type { SharedArea, StateChange, StateOperation } from '#master';

/** More than an operator reads; the oldest go. */
const maxIds = 10_000;

/** Ids of what is over, by age, with the time at which each is forgotten. */
export class AgedIds {
  readonly #part: 'dead' | 'delivered';
  readonly #expiry = new Map<string, number>();

  constructor(part: 'dead' | 'delivered') {
    this.#part = part;
  }

  /** With those that there are; in a cluster also with those of other members from then on. */
  async follow(state: SharedArea): Promise<void> {
    await state.follow(['signals', this.#part], (change) => this.#note(change));
    const found = [...this.#expiry].sort(([, a], [, b]) => a - b);
    this.#expiry.clear();
    for (const [id, expiresAt] of found) this.#expiry.set(id, expiresAt);
  }

  get size(): number {
    return this.#expiry.size;
  }

  /** Adds an id. @returns what stores its row, and deletes the oldest row of too many */
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

  /** Forgets those whose time is over. */
  expire(now: number): void {
    for (const [id, expiresAt] of this.#expiry) {
      if (expiresAt > now) return;
      this.#expiry.delete(id);
    }
  }

  /** The rows are not read: a thousand of them are as large as the outbox. */
  #note(change: StateChange): void {
    if (change.type === 'delete') this.#expiry.delete(change.key.at(-1) ?? '');
    else this.#expiry.set(change.entry.key.at(-1) ?? '', change.entry.expiresAt ?? 0);
  }
}
