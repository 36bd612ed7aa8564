/** Counts the unanswered requests of senders. */

import { Budget, releaseAll, tryTakeAll } from '#runtime';
import { edgeLimits } from '../limits.ts';

/**
 * Unanswered requests by sender, over all connections of the sender. A request remains open after
 * its connection has ended, until its handler has returned.
 */
export class OpenRequests {
  readonly #requests = new Budget(edgeLimits.openRequests);
  readonly #bytes = new Budget(edgeLimits.openRequestBytes);

  /**
   * Counts a request as open.
   * @param sender - name of the site, or of the centre
   * @returns a function that ends the count. Further calls have no effect. `undefined` if the
   * sender has too many open requests
   */
  open(sender: string, bytes: number): (() => void) | undefined {
    const parts = [
      { budget: this.#requests, owner: sender, amount: 1 },
      { budget: this.#bytes, owner: sender, amount: bytes },
    ];
    if (tryTakeAll(parts) !== undefined) return undefined;
    let isOpen = true;
    return () => {
      if (isOpen) releaseAll(parts);
      isOpen = false;
    };
  }
}
