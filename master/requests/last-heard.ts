import type { Peer } from '../../minion-protocol/index.ts';

/** Where a minion's last request came from. */
export type HeardFrom = Pick<Peer, 'address' | 'transport'>;

/**
 * When each minion's last verified request came, and from where. In memory only: it tells of this
 * master's time. Bounded by the accepted keys, because only their requests are noted and lost keys
 * are forgotten.
 */
export class LastHeard {
  readonly #last = new Map<string, { readonly at: number; readonly from: HeardFrom }>();

  /** @param at milliseconds since 1970 */
  note(minionId: string, at: number, { address, transport }: HeardFrom): void {
    this.#last.set(minionId, { at, from: { address, transport } });
  }

  /** Milliseconds since 1970; `undefined`: not since the start. */
  of(minionId: string): number | undefined {
    return this.#last.get(minionId)?.at;
  }

  /** Where it was heard last. */
  whence(minionId: string): HeardFrom | undefined {
    return this.#last.get(minionId)?.from;
  }

  forget(minionIds: readonly string[]): void {
    for (const id of minionIds) this.#last.delete(id);
  }
}
