import { Budget, createBoundedMap, KeyedSemaphore } from '#runtime';
import { AuthenticationError } from './errors.ts';
import { userLimits } from './limits.ts';

/** Resources of a log-in in progress. */
export interface LoginSlot {
  /** Runs a backend request when a slot is free. */
  ask<T>(eauth: string, question: () => Promise<T>): Promise<T>;
  leave(): void;
}

/**
 * Limits concurrent log-ins. Addresses with an earlier successful log-in have separate limits.
 * Strangers cannot exhaust these limits, regardless of their number of addresses.
 */
export class LoginSlots {
  readonly #known = createBoundedMap<string, true>(userLimits.knownAddresses);
  readonly #budgets = {
    known: new Budget(userLimits.activeLogins),
    strangers: new Budget(userLimits.activeLogins),
  };
  readonly #backends = new KeyedSemaphore(userLimits.backendRequests);

  /**
   * Reserves a slot.
   * @throws AuthenticationError ERR_EAUTH_LIMIT
   */
  enter(source: string): LoginSlot {
    const kind = this.#known.has(source) ? 'known' : 'strangers';
    const budget = this.#budgets[kind];
    if (!budget.tryTake(source)) {
      throw new AuthenticationError(
        'ERR_EAUTH_LIMIT',
        'too many log-ins are in progress; try again later',
      );
    }
    return {
      ask: (eauth, question) => this.#backends.run(`${kind} ${eauth}`, question),
      leave: () => budget.release(source),
    };
  }

  /** Records a successful log-in from an address. */
  succeeded(source: string): void {
    this.#known.set(source, true);
  }
}
