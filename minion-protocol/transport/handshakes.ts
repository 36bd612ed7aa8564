/**
 * Limits the TLS handshakes of a listener, and of the HTTP API. A handshake costs a signature on
 * the main thread, and a peer can request it with a few bytes. If the peer is a minion, the
 * handshake occupies a place in the limit only until the first request of the minion is verified. A
 * fleet of minions can therefore connect quickly.
 */
import { type FairSlot, FairSlots } from '#runtime';
import { transportLimits } from './limits.ts';

const defaultHoldMs = 1000;

/** TLS handshake of one connection. */
export interface Handshake {
  /**
   * Frees the place that this handshake occupies in the limit, because the peer has proven to be a
   * minion.
   */
  identified(): void;
  /**
   * Frees the place of this handshake in the limit, if the handshake has not started. A started
   * handshake keeps its place until {@link identified} is called or its time is over.
   */
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
