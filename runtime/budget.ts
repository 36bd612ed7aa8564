/** Limits of a {@link Budget}, in any unit: bytes, connections, slots. */
export interface BudgetLimits {
  /** Maximum amount of all owners together. */
  readonly total: number;
  /** Maximum amount of one owner. */
  readonly perOwner: number;
}

/** Counts the amounts of a limited resource that owners (an address, a caller) hold. */
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

  /** Returns `amount` to the budget, at most what the owner holds. */
  release(owner: string, amount = 1): void {
    const held = this.heldBy(owner);
    const released = Math.min(held, amount);
    this.#total -= released;
    if (held === released) this.#held.delete(owner);
    else this.#held.set(owner, held - released);
  }
}
