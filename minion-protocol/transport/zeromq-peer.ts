/**
 * Creates the protocol of a ZeroMQ port with the role ROUTER or PUB. It performs the handshake,
 * answers PINGs, and passes messages and subscriptions to handlers.
 */

import type { StreamConnection, StreamProtocol, StreamSession } from './stream-connection.ts';
import { toEncodedMessage } from './write-queue.ts';
import {
  encodeGreeting,
  ZmtpDecoder,
  type ZmtpEvent,
  type ZmtpLimits,
  type ZmtpRole,
} from './zmtp.ts';
import { encodePong, encodeReady } from './zmtp-commands.ts';

/** Callbacks that differ between ROUTER and PUB. */
export interface ZeromqHandlers<Session extends StreamSession> {
  openSession(connection: StreamConnection): Session;
  /** Called for each complete message to a ROUTER. The message does not exceed the limits. */
  onMessage?(frames: readonly Uint8Array[], session: Session, connection: StreamConnection): void;
  /** Called when a peer of PUB subscribes to a topic or unsubscribes. */
  onSubscription?(topic: string, isWanted: boolean, session: Session): void;
}

/** Event of a peer, except a protocol violation, which the connection itself handles. */
type PeerEvent = Exclude<ZmtpEvent, { readonly type: 'breach' }>;

export function zeromqProtocol<Session extends StreamSession>(
  role: ZmtpRole,
  limits: ZmtpLimits,
  handlers: ZeromqHandlers<Session>,
): StreamProtocol<PeerEvent, Session> {
  return {
    greeting: encodeGreeting(),
    createDecoder: () => new ZmtpDecoder(role, limits),
    openSession: handlers.openSession,
    onEvent: (event, session, connection) => {
      switch (event.type) {
        case 'greeting':
          connection.send(toEncodedMessage([encodeReady(role)]));
          break;
        case 'ready':
          connection.guarded.handshakeDone();
          break;
        case 'message':
          handlers.onMessage?.(event.frames, session, connection);
          break;
        case 'ping':
          connection.send(toEncodedMessage([encodePong(event.context)]));
          break;
        case 'subscribe':
        case 'cancel':
          handlers.onSubscription?.(event.topic, event.type === 'subscribe', session);
          break;
      }
    },
  };
}
