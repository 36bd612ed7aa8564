import { Budget, createBoundedMap, KeyedSemaphore } from '#runtime';
import { AuthenticationError } from './errors.ts';

/**
 * Maximum number of concurrent log-ins: per address, and in total. Known and unknown addresses have
 * separate totals.
 */
const limits = { perOwner: 16, total: 256 };

/**
 * Maximum number of concurrent requests to a backend. Known and unknown addresses have separate
 * limits.
 */
const maxAtBackend = 8;

/** Maximum number of known addresses. An address becomes known by a successful log-in. */
const maxKnown = 10_000;

/** Place of a log-in that is in progress. */
export interface LoginSlot {
  /** Runs a request to a backend when the backend's limit permits it. */
  ask<T>(eauth: string, question: () => Promise<T>): Promise<T>;
  leave(): void;
}

/**
 * Limits concurrent log-ins. Known addresses, from which a log-in has succeeded before, have
 * separate limits. Log-ins from unknown addresses cannot exhaust them.
 */
export class LoginSlots {
  readonly #known = createBoundedMap<string, true>(maxKnown);
  readonly #budgets = { known: new Budget(limits), strangers: new Budget(limits) };
  readonly #backends = new KeyedSemaphore(maxAtBackend);

  /**
   * Reserves a place for a log-in.
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
