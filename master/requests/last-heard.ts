/** A minion's last verified request. */
export interface Heard {
  /** Milliseconds since 1970. */
  readonly at: number;
  /** Remote address without port. */
  readonly address: string;
}

/**
 * When, and from where, each minion's last verified request came. In memory only: it tells of this
 * master's time. Bounded by the accepted keys, because only their requests are noted and lost keys
 * are forgotten.
 */
export class LastHeard {
  readonly #heard = new Map<string, Heard>();

  note(minionId: string, heard: Heard): void {
    this.#heard.set(minionId, heard);
  }

  /** Milliseconds since 1970; `undefined`: not since the start. */
  of(minionId: string): number | undefined {
    return this.#heard.get(minionId)?.at;
  }

  /** How many minions were heard. */
  get size(): number {
    return this.#heard.size;
  }

  /** Minions that were last heard from one of these addresses. */
  from(addresses: ReadonlySet<string>): Set<string> {
    const found = new Set<string>();
    for (const [id, { address }] of this.#heard) {
      if (addresses.has(address)) found.add(id);
    }
    return found;
  }

  forget(minionIds: readonly string[]): void {
    for (const id of minionIds) this.#heard.delete(id);
  }
}
