import type { FairSlot, FairSlots } from '#runtime';

/**
 * TLS handshakes that addresses share in turns. A handshake costs a signature on the main thread,
 * and a peer can request it with a few bytes.
 */
export class HandshakeTurns {
  readonly #slots: FairSlots;
  readonly #holdMs: number;

  /**
   * @param holdMs - time for which a started handshake uses one of the slots, in milliseconds
   */
  constructor(slots: FairSlots, holdMs: number) {
    this.#slots = slots;
    this.#holdMs = holdMs;
  }

  /**
   * Requests a handshake.
   * @param start - called when the handshake may start
   * @returns a function that cancels the request while it waits. After the start of the handshake,
   * the function has no effect, and the slot stays in use for the time `holdMs`
   * @throws LimitExceeded if too many handshakes wait
   */
  enter(address: string, start: () => void): () => void {
    let onEntered = (): void => {};
    const slot: FairSlot = this.#slots.enter(address, () => onEntered());
    const begin = (): void => {
      setTimeout(() => slot.leave(), this.#holdMs).unref();
      start();
    };
    if (slot.isWaiting) onEntered = begin;
    else begin();
    return () => {
      if (slot.isWaiting) slot.leave();
    };
  }
}
