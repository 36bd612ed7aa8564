/**
 * Limits the TLS handshakes of a listener, and of the HTTP API. A handshake costs a signature on the main thread, and a
 * peer can request it with a few bytes. A handshake that a minion uses costs its place only until
 * the first request of the minion is verified, so that a fleet connects quickly.
 */
import { type FairSlot, FairSlots } from '#runtime';
import { transportLimits } from './limits.ts';

const defaultHoldMs = 1000;

/** TLS handshake of one connection. */
export interface Handshake {
  /** Gives the place of the handshake back, because the peer is a minion. */
  identified(): void;
  /** Gives the place back if the handshake has not started. A started one counts to its end. */
  closed(): void;
}

/** TLS handshakes that addresses share in turns. */
export class HandshakeTurns {
  readonly #slots: FairSlots;
  readonly #holdMs: number;

  /**
   * @param holdMs - time for which a started handshake uses one of the slots, in milliseconds. If a
   * request of the minion is verified earlier, the slot becomes free. Default: 1,000
   */
  constructor(slots: FairSlots, holdMs: number = defaultHoldMs) {
    this.#slots = slots;
    this.#holdMs = holdMs;
  }

  /**
   * Requests a handshake.
   * @param start - called when the handshake may start
   * @throws LimitExceeded if too many handshakes wait
   */
  enter(address: string, start: () => void): Handshake {
    let onEntered = (): void => {};
    const slot: FairSlot = this.#slots.enter(address, () => onEntered());
    const begin = (): void => {
      setTimeout(() => slot.leave(), this.#holdMs).unref();
      start();
    };
    if (slot.isWaiting) onEntered = begin;
    else begin();
    return {
      identified: () => slot.leave(),
      closed: () => {
        if (slot.isWaiting) slot.leave();
      },
    };
  }
}

/** Handshakes of the connections of a listener. */
export class Handshakes {
  readonly #strangers: HandshakeTurns;
  readonly #known: HandshakeTurns;

  /** @param holdMs - see {@link HandshakeTurns} */
  constructor(holdMs: number | undefined) {
    this.#strangers = new HandshakeTurns(new FairSlots(transportLimits.handshakes), holdMs);
    this.#known = new HandshakeTurns(new FairSlots(transportLimits.knownHandshakes), holdMs);
  }

  /**
   * Requests a handshake.
   * @param isKnown - whether a minion with this address was verified
   * @param start - called when the handshake may start
   * @throws LimitExceeded if too many handshakes wait
   */
  enter(address: string, isKnown: boolean, start: () => void): Handshake {
    return (isKnown ? this.#known : this.#strangers).enter(address, start);
  }
}
