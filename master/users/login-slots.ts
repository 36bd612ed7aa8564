import { addressOwner, Budget, FairSlots, FairTable } from '#runtime';
import { AuthenticationError } from './errors.ts';
import { userLimits } from './limits.ts';

/** Slot that a log-in occupies while it is in progress. Release it with `leave`. */
export interface LoginSlot {
  /**
   * Sends a request to a backend. If too many requests to the backend are in progress, the request
   * waits.
   * @param eauth - name of the backend
   * @param question - sends the request
   */
  ask<T>(eauth: string, question: () => Promise<T>): Promise<T>;
  leave(): void;
}

/**
 * Limits concurrent log-ins. An address is known if a log-in from it has succeeded before. Known
 * addresses have separate limits, which log-ins from unknown addresses cannot exhaust.
 */
export class LoginSlots {
  /**
   * Addresses from which a log-in has succeeded. An address belongs to the user who logged in from
   * it last. If there are too many addresses, evicts the oldest address of the user who has the
   * most addresses.
   */
  readonly #known = new FairTable<true>(userLimits.knownAddresses);
  readonly #budgets = {
    known: new Budget(userLimits.activeLogins),
    strangers: new Budget(userLimits.activeLogins),
  };
  readonly #backends = new Map<string, FairSlots>();

  /**
   * Reserves a slot for a log-in.
   * @throws AuthenticationError ERR_EAUTH_LIMIT
   */
  enter(address: string): LoginSlot {
    const source = addressOwner(address);
    const kind = this.#known.get(source) === true ? 'known' : 'strangers';
    const budget = this.#budgets[kind];
    if (!budget.tryTake(source)) {
      throw new AuthenticationError(
        'ERR_EAUTH_LIMIT',
        'too many log-ins are in progress; try again later',
      );
    }
    return {
      ask: (eauth, question) => this.#slotsOf(`${kind} ${eauth}`).run(source, question),
      leave: () => budget.release(source),
    };
  }

  /**
   * Returns the slots for requests to a backend. Known and unknown addresses have separate slots.
   * @param key - kind of address and name of the backend. Few such keys exist, so entries are never
   * removed
   */
  #slotsOf(key: string): FairSlots {
    const known = this.#backends.get(key) ?? new FairSlots(userLimits.backendRequests);
    this.#backends.set(key, known);
    return known;
  }

  /** Records a successful log-in, so that its address counts as known from now on. */
  succeeded(eauth: string, user: string, address: string): void {
    this.#known.trySet(`${eauth} ${user}`, addressOwner(address), true);
  }
}
