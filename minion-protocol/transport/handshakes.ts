import type { Server, Socket } from 'node:net';
import type { FairSlot, FairSlots } from '#runtime';

/** TLS handshake of one connection. */
export interface Handshake {
  /**
   * Frees the place of this handshake in the limit, if the handshake has not started. A started
   * handshake keeps its place until its time is over.
   */
  closed(): void;
}

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
      closed: () => {
        if (slot.isWaiting) slot.leave();
      },
    };
  }
}

/**
 * Removes from a server the listeners that process new connections, so that new connections can be
 * made to wait.
 * @returns a function that processes a connection, unless it has ended. With TLS, it starts the
 * handshake
 */
export function holdConnections(server: Server): (socket: Socket) => void {
  const listeners = server.listeners('connection');
  server.removeAllListeners('connection');
  return (socket) => {
    if (socket.destroyed) return;
    for (const listener of listeners) listener.call(server, socket);
  };
}
