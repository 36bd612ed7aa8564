/** Ids by the time at which they end. */

import type { SharedArea, StateChange } from '#master';

/** Ids of what is over, by age, with the time at which each is forgotten. */
export class AgedIds {
  readonly #expiry = new Map<string, number>();

  /** With those that there are; in a cluster also with those of other members from then on. */
  async follow(state: SharedArea, part: 'dead' | 'delivered'): Promise<void> {
    await state.follow(['signals', part], (change) => this.#note(change));
    const found = [...this.#expiry].sort(([, a], [, b]) => a - b);
    this.#expiry.clear();
    for (const [id, expiresAt] of found) this.#expiry.set(id, expiresAt);
  }

  get size(): number {
    return this.#expiry.size;
  }

  add(id: string, expiresAt: number): void {
    this.#expiry.set(id, expiresAt);
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

  /** Takes out the oldest where there are more than so many. */
  dropOldest(most: number): string | undefined {
    const [oldest] = this.#expiry.keys();
    if (this.#expiry.size <= most || oldest === undefined) return undefined;
    this.#expiry.delete(oldest);
    return oldest;
  }

  /** The rows are not read: a thousand of them are as large as the outbox. */
  #note(change: StateChange): void {
    if (change.type === 'delete') this.#expiry.delete(change.key.at(-1) ?? '');
    else this.#expiry.set(change.entry.key.at(-1) ?? '', change.entry.expiresAt ?? 0);
  }
}
