/** From the socket that a peer connected with to the protocol that is spoken over it. */
import type { Socket } from 'node:net';
import type { ConnectionOwner, GuardedConnection, PortRules } from '../../runtime/index.ts';
import { type OpenConnection, openConnection, type StreamProtocol } from './stream-connection.ts';
import type { ListenerParts } from './write-queue.ts';

/** How peers of one port are spoken with. */
export interface Port extends PortRules {
  /** Whether the protocol has a handshake of its own; its session tells when it is done. */
  readonly hasHandshake: boolean;
  readonly open: (
    stream: Socket,
    guarded: GuardedConnection,
    parts: ListenerParts,
  ) => OpenConnection;
}

/** A port that speaks `protocol`. */
export function createPort<Event extends { readonly type: string }>(
  properties: Omit<Port, 'open'>,
  protocol: StreamProtocol<Event>,
): Port {
  return {
    ...properties,
    open: (stream, guarded, parts) => openConnection(stream, guarded, parts, protocol),
  };
}

/** A socket in the guard's table; with TLS nothing of the protocol can come over it at first. */
export class AdmittedSocket implements ConnectionOwner {
  readonly #socket: Socket;
  #connection: OpenConnection | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /**
   * Speaks the port's protocol from here on.
   * @param stream the socket, or what TLS makes of it
   */
  open(port: Port, stream: Socket, guarded: GuardedConnection, parts: ListenerParts): void {
    if (!port.hasHandshake) guarded.handshakeDone();
    this.#connection = port.open(stream, guarded, parts);
  }

  onEnd(): void {
    this.#socket.destroy();
    this.#connection?.onClosed();
  }

  finish(): void {
    if (this.#connection === undefined) this.#socket.destroy();
    else this.#connection.finish();
  }
}
