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
  readonly #now: () => number;
  #isScheduled = false;
  #hasArrived = false;
  /** Time until which arrivals postpone handshakes. */
  #pauseEnd = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  noteArrival(): void {
    this.#hasArrived = true;
  }

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
    const begin = this.#now();
    const isPaused = this.#hasArrived && begin < this.#pauseEnd;
    this.#hasArrived = false;
    if (isPaused) return;
    for (let left = maxInTurn; left > 0; ) {
      const start = this.#waiting.shift();
      if (start === undefined) break;
      if (start()) left -= 1;
    }
    // TLS signs in the ticks that follow.
    process.nextTick(() => {
      const end = this.#now();
      this.#pauseEnd = end + (end - begin);
    });
  }
}

/**
 * Turns of the event loop in which the TLS handshakes of a listener start. A handshake costs the
 * master a signature on the main thread, and any client can request it. Between a few handshakes,
 * the event loop therefore processes other connections and timers.
 *
 * In each turn, Node.js accepts only one connection per port, in the order in which they arrive.
 * While connections arrive, handshakes of strangers therefore use at most half of the time.
 * Otherwise, a client would wait to be accepted until all earlier clients had their handshakes, and
 * addresses could not take turns.
 */
export class HandshakeTurns {
  readonly #known: HandshakeQueue;
  readonly #strangers: HandshakeQueue;

  /** @param now - returns a time in milliseconds that never goes back */
  constructor(now = (): number => performance.now()) {
    this.#known = new HandshakeQueue(now);
    this.#strangers = new HandshakeQueue(now);
  }

  /** Records that a connection was accepted in this turn. */
  noteArrival(): void {
    this.#strangers.noteArrival();
  }

  /**
   * @param start - called once, in a later turn
   * @returns `false` if too many handshakes wait. `start` is then never called
   */
  tryEnter({ limitKey, isKnown }: HandshakePeer, start: StartHandshake): boolean {
    return (isKnown ? this.#known : this.#strangers).tryPush(limitKey, start);
  }
}
