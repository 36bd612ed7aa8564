import { hash } from 'node:crypto';
import { type AuditRequester, type CallContext, isOfOperator } from '#master';
import { Budget, type Limit, type LimitValues, userWork, WorkBudget } from '#runtime';

/**
 * Owner of the values that the operator stores. The limits per owner do not apply to these values,
 * but the total limits do.
 */
export const operatorOwner = '';

/**
 * Returns the owner of the values that a caller stores: {@link operatorOwner} for the operator,
 * otherwise a text of 22 characters. The text has this fixed length so that it can be a part of a
 * key in the store.
 */
export function ownerOfValues({ by }: Pick<CallContext, 'by'>): string {
  return by === undefined || isOfOperator(by) ? operatorOwner : ownerOfActor(by.who);
}

/** Returns the owner of values that count towards the limits of this requester. */
export function ownerOfActor({ kind, name, eauth = '' }: AuditRequester['who']): string {
  const digest = hash('sha256', `${kind} ${eauth} ${name}`, 'base64url');
  return digest.slice(0, 22);
}

/**
 * Returns a work budget for handling the values that an owner has stored. If several owners wait,
 * slices of their work alternate. An owner with several budgets gets no more slices than one with a
 * single budget.
 * @param owner - result of {@link ownerOfValues}
 */
export function valueWorkOf(owner: string): WorkBudget {
  return new WorkBudget(userWork, owner === operatorOwner ? undefined : `values of ${owner}`);
}

/** Counts the values or bytes that each owner has stored, and enforces the limits. */
export class StoredAmounts {
  readonly #budget: Budget;
  readonly #values: LimitValues;

  /**
   * @param values - bounds to use instead of those in `limit`: the maximum per owner, the maximum
   * in total, and the part of the total that is reserved for owners that have stored nothing yet
   */
  constructor(limit: Limit, values: LimitValues = limit) {
    this.#budget = new Budget(limit, values);
    this.#values = values;
  }

  /**
   * Counts `amount` more stored values or bytes of an owner. If they would exceed a limit, counts
   * nothing and returns `false`.
   */
  tryTake(owner: string, amount: number): boolean {
    if (owner !== operatorOwner) return this.#budget.tryTake(owner, amount);
    if (this.#budget.total + amount > this.maximumOf(owner)) return false;
    this.take(owner, amount);
    return true;
  }

  /**
   * Counts `amount` more stored values or bytes of an owner, even if a limit is exceeded. For
   * values that are already stored.
   */
  take(owner: string, amount: number): void {
    this.#budget.take(owner, amount);
  }

  release(owner: string, amount: number): void {
    this.#budget.release(owner, amount);
  }

  /**
   * Returns the maximum amount (number of values or bytes) that an owner may store. For the
   * operator, this is the maximum for all owners together.
   */
  maximumOf(owner: string): number {
    const { perOwner, total = Infinity } = this.#values;
    return owner === operatorOwner ? total : (perOwner ?? total);
  }
}
