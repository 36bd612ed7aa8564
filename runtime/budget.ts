import type { Limit, LimitValues } from './limits.ts';

/** Maximums of a {@link Budget}, in its unit: bytes, connections or slots. */
export interface BudgetLimits {
  /**
   * Maximum that all owners together may hold, in the unit of the budget: bytes, connections or
   * slots.
   */
  readonly total: number;
  /** Maximum that one owner may hold, in the unit of the budget: bytes, connections or slots. */
  readonly perOwner: number;
}

/**
 * Counts how many units of a limited resource, for example bytes or connections, each owner holds.
 * A request that would exceed a limit is refused and does not wait.
 */
export class Budget {
  readonly #perOwner: number;
  #total: number;
  readonly #reserved: number;
  readonly #timesFree: number;
  readonly #held = new Map<string, number>();
  #taken = 0;

  /**
   * Creates an unused budget.
   * @param values - maximums to use instead of those in `limit`: `perOwner` for each owner, `total`
   * for all owners together
   */
  constructor(limit: Limit, values: LimitValues = limit) {
    this.#perOwner = values.perOwner ?? Infinity;
    this.#total = values.total ?? Infinity;
    this.#reserved = values.reserved ?? 0;
    this.#timesFree = values.timesFree ?? Infinity;
  }

  /**
   * Changes the maximum that all owners together may hold. Owners keep what they hold, also if it
   * exceeds the new maximum.
   */
  resize(total: number): void {
    this.#total = total;
  }

  /** Amount of the resource that all owners hold together. */
  get total(): number {
    return this.#taken;
  }

  /** Amount that no owner holds. Negative if the owners hold more than the maximum. */
  get free(): number {
    return this.#total - this.#taken;
  }

  /** Owner that holds most of the resource, or `undefined` if no owner holds any. */
  get largestHolder(): string | undefined {
    let largest: string | undefined;
    for (const owner of this.#held.keys()) {
      if (largest === undefined || this.heldBy(owner) > this.heldBy(largest)) largest = owner;
    }
    return largest;
  }

  /** Returns how much of the limited resource one owner holds now. */
  heldBy(owner: string): number {
    return this.#held.get(owner) ?? 0;
  }

  /**
   * Takes `amount` for an owner if the owner's limit and the total limit permit it. Otherwise takes
   * nothing and returns `false`.
   */
  tryTake(owner: string, amount = 1): boolean {
    if (!this.hasPlace(owner, amount)) return false;
    this.take(owner, amount);
    return true;
  }

  /**
   * Whether {@link tryTake} would succeed.
   * @param free - amount that the owner shares with others. Default: the amount that no owner holds
   */
  hasPlace(owner: string, amount = 1, free: number = this.free): boolean {
    const held = this.heldBy(owner);
    if (held + amount > Math.min(this.#perOwner, this.#shareOf(free))) return false;
    return amount <= free - (held === 0 ? 0 : this.#reserved);
  }

  #shareOf(free: number): number {
    return this.#timesFree === Infinity ? Infinity : free * this.#timesFree;
  }

  /** Counts `amount` of the resource as held by an owner, even if a limit is exceeded. */
  take(owner: string, amount = 1): void {
    this.#held.set(owner, this.heldBy(owner) + amount);
    this.#taken += amount;
  }

  /** Gives back `amount` units that an owner holds, or all its units if it holds fewer. */
  release(owner: string, amount = 1): void {
    const held = this.heldBy(owner);
    const released = Math.min(held, amount);
    this.#taken -= released;
    if (held === released) this.#held.delete(owner);
    else this.#held.set(owner, held - released);
  }
}

/**
 * Number of units (`amount`) to take from a budget for an owner. {@link tryTakeAll} takes the units
 * of several parts, or none.
 */
export interface BudgetPart {
  readonly budget: Pick<Budget, 'tryTake' | 'release'>;
  readonly owner: string;
  readonly amount: number;
}

/**
 * Takes the amount of each part from the budget of the part. If a budget does not permit its
 * amount, takes nothing from any budget.
 * @returns the first part that was not permitted, or `undefined` if all amounts were taken
 */
export function tryTakeAll<Part extends BudgetPart>(parts: readonly Part[]): Part | undefined {
  for (const [index, part] of parts.entries()) {
    if (part.budget.tryTake(part.owner, part.amount)) continue;
    releaseAll(parts.slice(0, index));
    return part;
  }
  return undefined;
}

/** Releases each `amount` in its budget, so that the owner no longer holds it. */
export function releaseAll(parts: readonly BudgetPart[]): void {
  for (const { budget, owner, amount } of parts) budget.release(owner, amount);
}
