/** Limits concurrent log-ins. */

import { Budget, createBoundedMap, KeyedSemaphore } from '#runtime';
import { AuthenticationError } from './errors.ts';

/** Log-ins that may be under way: of one address, and of all addresses of its kind. */
const limits = { perOwner: 16, total: 256 };

/** Log-ins that a back end is asked about at once, for each kind of address. */
const maxAtBackend = 8;

/** Addresses that are remembered because somebody has logged in from there. */
const maxKnown = 10_000;

/** What a log-in holds while it is under way. */
export interface LoginSlot {
  /** Asks a back end when its turn comes. */
  ask<T>(eauth: string, question: () => Promise<T>): Promise<T>;
  leave(): void;
}

/**
 * Slots for log-ins. Addresses that somebody has logged in from have slots, and turns at the back
 * ends, of their own: strangers take nothing from them, however many addresses they have.
 */
export class LoginSlots {
  readonly #known = createBoundedMap<string, true>(maxKnown);
  readonly #budgets = { known: new Budget(limits), strangers: new Budget(limits) };
  readonly #backends = new KeyedSemaphore(maxAtBackend);

  /** @throws AuthenticationError ERR_EAUTH_LIMIT */
  enter(source: string): LoginSlot {
    const kind = this.#known.has(source) ? 'known' : 'strangers';
    const budget = this.#budgets[kind];
    if (!budget.tryTake(source)) {
      throw new AuthenticationError('ERR_EAUTH_LIMIT', 'too many log-ins are under way');
    }
    return {
      ask: (eauth, question) => this.#backends.run(`${kind} ${eauth}`, question),
      leave: () => budget.release(source),
    };
  }

  /** Somebody has logged in from there. */
  succeeded(source: string): void {
    this.#known.set(source, true);
  }
}
