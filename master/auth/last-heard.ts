import type { Peer } from '../../minion-protocol/index.ts';

/** Where a minion's last request came from. */
export type HeardFrom = Pick<Peer, 'address' | 'transport'>;

/** A minion's last verified request. */
interface Heard {
  /** Milliseconds since 1970. */
  at: number;
  from: HeardFrom;
}

/**
 * When each minion's last verified request came, and from where. In memory only: it tells of this
 * master's time. Bounded by the accepted keys, because only their requests are noted and lost keys
 * are forgotten.
 */
export class LastHeard {
  readonly #heard = new Map<string, Heard>();
  readonly #listeners = new Set<(minionId: string) => void>();

  /** @param at milliseconds since 1970 */
  note(minionId: string, at: number, { address, transport }: HeardFrom): void {
    const known = this.#heard.get(minionId);
    if (known === undefined) {
      this.#heard.set(minionId, { at, from: { address, transport } });
      for (const listener of this.#listeners) listener(minionId);
      return;
    }
    known.at = at;
    if (known.from.address === address && known.from.transport === transport) return;
    known.from = { address, transport };
  }

  /**
   * Calls the listener when a minion is heard that was not since the start, or since it was
   * forgotten, until the function given is called.
   */
  onFirst(listener: (minionId: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Milliseconds since 1970; `undefined`: not since the start. */
  of(minionId: string): number | undefined {
    return this.#heard.get(minionId)?.at;
  }

  /** Where it was heard last. */
  lastRemote(minionId: string): HeardFrom | undefined {
    return this.#heard.get(minionId)?.from;
  }

  /** How many minions were heard. */
  get size(): number {
    return this.#heard.size;
  }

  forget(minionIds: readonly string[]): void {
    for (const id of minionIds) this.#heard.delete(id);
  }
}
