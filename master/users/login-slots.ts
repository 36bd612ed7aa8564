import { addressOwner, Budget, FairSlots, FairTable } from '#runtime';
import { AuthenticationError } from './errors.ts';
import { userLimits } from './limits.ts';

/** Place of a log-in that is in progress. */
export interface LoginSlot {
  /** Runs a request to a backend when the backend's limit permits it. */
  ask<T>(eauth: string, question: () => Promise<T>): Promise<T>;
  leave(): void;
}

/**
 * Limits concurrent log-ins. An address is known if a log-in from it has succeeded before. Known
 * addresses have separate limits, which log-ins from unknown addresses cannot exhaust.
 */
export class LoginSlots {
  /** Addresses with an earlier log-in. Each belongs to the user who logged in last. */
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
   * Returns the slots of a backend for known or for unknown addresses.
   * @param key - kind of address and name of the backend. Few such keys exist, so entries are never
   * removed
   */
  #slotsOf(key: string): FairSlots {
    const known = this.#backends.get(key) ?? new FairSlots(userLimits.backendRequests);
    this.#backends.set(key, known);
    return known;
  }

  /** Records a successful log-in from an address. */
  succeeded(eauth: string, user: string, address: string): void {
    this.#known.trySet(`${eauth} ${user}`, addressOwner(address), true);
  }
}
