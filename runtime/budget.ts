/** Bounds of a {@link Budget}, in whatever unit it counts: bytes, connections, slots. */
export interface BudgetLimits {
  /** What all owners may hold together. */
  readonly total: number;
  /** What one owner may hold. */
  readonly perOwner: number;
}

/** Counts what owners (an address, a caller) hold of something that is bounded for each and for all. */
export class Budget {
  readonly #limits: BudgetLimits;
  readonly #held = new Map<string, number>();
  #total = 0;

  constructor(limits: BudgetLimits) {
    this.#limits = limits;
  }

  /** What all owners hold. */
  get total(): number {
    return this.#total;
  }

  /** What one owner holds. */
  heldBy(owner: string): number {
    return this.#held.get(owner) ?? 0;
  }

  /** Takes `amount` if both limits allow it; takes nothing otherwise. */
  tryTake(owner: string, amount = 1): boolean {
    const held = this.heldBy(owner) + amount;
    if (held > this.#limits.perOwner || this.#total + amount > this.#limits.total) return false;
    this.#held.set(owner, held);
    this.#total += amount;
    return true;
  }

  /** Gives back at most what the owner holds. */
  release(owner: string, amount = 1): void {
    const held = this.heldBy(owner);
    const released = Math.min(held, amount);
    this.#total -= released;
    if (held === released) this.#held.delete(owner);
    else this.#held.set(owner, held - released);
  }
}
