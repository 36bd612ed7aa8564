/** Limits the TLS handshakes that a listener starts in one turn of the event loop. */

import { FairQueue, LimitExceeded } from '#runtime';
import type { GuardedConnection } from './connection-guard.ts';
import { transportLimits } from './limits.ts';

/**
 * Starts a handshake.
 * @returns `false` if it cannot start any more, because its connection has ended
 */
export type StartHandshake = () => boolean;

/** Connection of the peer that requests a handshake. */
type HandshakePeer = Pick<GuardedConnection, 'limitKey' | 'isKnown'>;

const maxInTurn = transportLimits.handshakes.total ?? Infinity;

/** TLS handshakes that wait for a turn of the event loop. */
class HandshakeQueue {
  readonly #waiting = new FairQueue<StartHandshake>(transportLimits.handshakes);
  #isScheduled = false;

  tryPush(address: string, start: StartHandshake): boolean {
    try {
      this.#waiting.push(address, start);
    } catch (error) {
      if (error instanceof LimitExceeded) return false;
      throw error;
    }
    this.#schedule();
    return true;
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.length === 0) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#startSome();
      this.#schedule();
    });
  }

  #startSome(): void {
    for (let left = maxInTurn; left > 0; ) {
      const start = this.#waiting.shift();
      if (start === undefined) return;
      if (start()) left -= 1;
    }
  }
}

/**
 * Turns of the event loop in which the TLS handshakes of a listener start. A handshake costs the
 * master a signature on the main thread, and any client can request it. Between a few handshakes,
 * the event loop therefore processes other connections and timers.
 */
export class HandshakeTurns {
  readonly #known = new HandshakeQueue();
  readonly #strangers = new HandshakeQueue();

  /**
   * @param start - called once, in a later turn
   * @returns `false` if too many handshakes wait. `start` is then never called
   */
  tryEnter({ limitKey, isKnown }: HandshakePeer, start: StartHandshake): boolean {
    return (isKnown ? this.#known : this.#strangers).tryPush(limitKey, start);
  }
}
