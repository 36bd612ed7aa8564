import type { Peer } from '#minion-protocol';

/** Address and transport of a minion's last request. */
export type RequestSource = Pick<Peer, 'address' | 'transport'>;

/** Last verified request of a minion. */
interface Heard {
  /** Time of the request, in milliseconds since 1970. */
  at: number;
  from: RequestSource;
}

/**
 * Times and sources of minions' last verified requests since the start of the master. They are held
 * only in memory. Only minions with an accepted key have an entry. The entry is deleted with the
 * key, so the number of entries is limited.
 */
export class LastRequests {
  readonly #heard = new Map<string, Heard>();
  readonly #listeners = new Set<(minionId: string) => void>();

  /**
   * Records a request.
   * @param at - time in milliseconds since 1970
   */
  note(minionId: string, at: number, { address, transport }: RequestSource): void {
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
   * Calls the listener at the first request of a minion since the start of the master, or since
   * {@link forget} was called for it. Returns a function that removes the listener.
   */
  onFirst(listener: (minionId: string) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Returns the time of the last request in milliseconds since 1970, or `undefined` if there was
   * none since the start.
   */
  of(minionId: string): number | undefined {
    return this.#heard.get(minionId)?.at;
  }

  /** Returns the source of the last request. */
  lastRemote(minionId: string): RequestSource | undefined {
    return this.#heard.get(minionId)?.from;
  }

  /** Number of minions that have sent a verified request. */
  get size(): number {
    return this.#heard.size;
  }

  forget(minionIds: readonly string[]): void {
    for (const id of minionIds) this.#heard.delete(id);
  }
}
