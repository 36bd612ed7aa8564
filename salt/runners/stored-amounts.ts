import { createHash } from 'node:crypto';
import { type CallContext, isOfOperator } from '#master';
import { Budget, type Limit, type LimitValues } from '#runtime';

/** Owner of the values of the operator. Only the total limits them. */
export const operatorOwner = '';

/**
 * Returns the owner of the values that a caller stores. It is short and has the same length for all
 * users and minions, so that it can be a part of a key in the store.
 */
export function ownerOfValues({ by }: Pick<CallContext, 'by'>): string {
  if (by === undefined || isOfOperator(by)) return operatorOwner;
  const { kind, name, eauth = '' } = by.who;
  const digest = createHash('sha256').update(`${kind} ${eauth} ${name}`).digest('base64url');
  return digest.slice(0, 22);
}

/** Amounts of stored values, by owner. */
export class StoredAmounts {
  readonly #budget: Budget;
  readonly #values: LimitValues;

  /** @param values - amounts to use instead of those of `limit` */
  constructor(limit: Limit, values: LimitValues = limit) {
    this.#budget = new Budget(limit, values);
    this.#values = values;
  }

  /** Takes `amount` for an owner, or returns `false` if a limit does not permit it. */
  tryTake(owner: string, amount: number): boolean {
    if (owner !== operatorOwner) return this.#budget.tryTake(owner, amount);
    if (this.#budget.total + amount > this.maximumOf(owner)) return false;
    this.take(owner, amount);
    return true;
  }

  /** Takes `amount` for a value that is already stored, even if a limit is exceeded. */
  take(owner: string, amount: number): void {
    this.#budget.take(owner, amount);
  }

  release(owner: string, amount: number): void {
    this.#budget.release(owner, amount);
  }

  /** Returns the maximum amount of an owner. */
  maximumOf(owner: string): number {
    const { perOwner, total = Infinity } = this.#values;
    return owner === operatorOwner ? total : (perOwner ?? total);
  }
}
