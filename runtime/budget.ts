/** Limits of a {@link Budget}, in the unit of its resource: bytes, connections, slots. */
export interface BudgetLimits {
  /** Maximum amount that all owners may hold together. */
  readonly total: number;
  /** Maximum amount that one owner may hold. */
  readonly perOwner: number;
}

/**
 * Limits how much of a resource each owner (an address, a caller) and all owners together may hold.
 */
export class Budget {
  readonly #limits: BudgetLimits;
  readonly #held = new Map<string, number>();
  #total = 0;

  constructor(limits: BudgetLimits) {
    this.#limits = limits;
  }

  /** Amount that all owners hold. */
  get total(): number {
    return this.#total;
  }

  /** Returns the amount that one owner holds. */
  heldBy(owner: string): number {
    return this.#held.get(owner) ?? 0;
  }

  /** Takes `amount` if both limits permit it. Otherwise takes nothing and returns `false`. */
  tryTake(owner: string, amount = 1): boolean {
    const held = this.heldBy(owner) + amount;
    if (held > this.#limits.perOwner || this.#total + amount > this.#limits.total) return false;
    this.#held.set(owner, held);
    this.#total += amount;
    return true;
  }

  /** Returns `amount` to the budget. If the owner holds less, returns that. */
  release(owner: string, amount = 1): void {
    const held = this.heldBy(owner);
    const released = Math.min(held, amount);
    this.#total -= released;
    if (held === released) this.#held.delete(owner);
    else this.#held.set(owner, held - released);
  }
}
