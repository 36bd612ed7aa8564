/** One ZeroMQ peer: handshake and PING, for either role. */

import type { StreamConnection, StreamProtocol, StreamSession } from './stream-connection.ts';
import { singleChunkMessage } from './write-queue.ts';
import {
  encodeGreeting,
  ZmtpDecoder,
  type ZmtpEvent,
  type ZmtpLimits,
  type ZmtpRole,
} from './zmtp.ts';
import { encodePong, encodeReady } from './zmtp-commands.ts';

/** What the two roles do differently with a peer. */
export interface ZeromqSession {
  /** A message of the peer, whole and within the limits. */
  onMessage(frames: readonly Uint8Array[]): void;
  /** The peer wants a topic, or no longer. */
  onSubscription(topic: string, isWanted: boolean): void;
  /** Part of what was queued has been written. */
  onWritten(): void;
  onClosed(): void;
  /** Finish what is under way, then {@link StreamConnection.endWhenWritten}. */
  finish(): void;
}

/** Breaches are the connection's own business. */
type PeerEvent = Exclude<ZmtpEvent, { readonly type: 'breach' }>;

export function zeromqProtocol(
  role: ZmtpRole,
  limits: ZmtpLimits,
  openSession: (connection: StreamConnection) => ZeromqSession,
): StreamProtocol<PeerEvent> {
  return {
    greeting: encodeGreeting(),
    createDecoder: () => new ZmtpDecoder(role, limits),
    openSession: (connection) => new ZeromqPeer(connection, role, openSession(connection)),
  };
}

class ZeromqPeer implements StreamSession<PeerEvent> {
  readonly #connection: StreamConnection;
  readonly #role: ZmtpRole;
  readonly #session: ZeromqSession;

  constructor(connection: StreamConnection, role: ZmtpRole, session: ZeromqSession) {
    this.#connection = connection;
    this.#role = role;
    this.#session = session;
  }

  onEvent(event: PeerEvent): void {
    switch (event.type) {
      case 'greeting':
        this.#connection.send(singleChunkMessage(encodeReady(this.#role)));
        break;
      case 'ready':
        this.#connection.guarded.handshakeDone();
        break;
      case 'message':
        this.#session.onMessage(event.frames);
        break;
      case 'ping':
        this.#connection.send(singleChunkMessage(encodePong(event.context)));
        break;
      case 'subscribe':
      case 'cancel':
        this.#session.onSubscription(event.topic, event.type === 'subscribe');
        break;
    }
  }

  onWritten(): void {
    this.#session.onWritten();
  }

  onClosed(): void {
    this.#session.onClosed();
  }

  finish(): void {
    this.#session.finish();
  }
}
