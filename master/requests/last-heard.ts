/**
 * When each minion's last verified request came. In memory only: it tells of this master's time.
 * Bounded by the accepted keys, because only their requests are noted and lost keys are forgotten.
 */
export class LastHeard {
  readonly #times = new Map<string, number>();

  /** @param at milliseconds since 1970 */
  note(minionId: string, at: number): void {
    this.#times.set(minionId, at);
  }

  /** Milliseconds since 1970; `undefined`: not since the start. */
  of(minionId: string): number | undefined {
    return this.#times.get(minionId);
  }

  forget(minionIds: readonly string[]): void {
    for (const id of minionIds) this.#times.delete(id);
  }
}
