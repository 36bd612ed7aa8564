/**
 * The master's end of the WebSocket transport, with or without TLS [WIRE 4.3;
 * salt/transport/ws.py].
 */
import { Buffer } from 'node:buffer';
import { binHead } from '../tcp-frames.ts';
import {
  encodeWebsocketFrame,
  OPCODE_BINARY,
  OPCODE_PONG,
  WebsocketDecoder,
  type WebsocketEvent,
} from '../websocket.ts';
import { type AnswerForm, RequestQueue } from './request-queue.ts';
import type { StreamConnection, StreamProtocol, StreamSession } from './stream-connection.ts';
import { createListener, createPortProtocol, type ListenerOptions } from './stream-listener.ts';
import {
  DEFAULT_STREAM_PUBLISHER_OPTIONS,
  StreamPublisher,
  type StreamPublisherOptions,
  SubscriberLink,
} from './stream-publisher.ts';
import type { TlsOptions } from './tls.ts';
import type { MasterTransport } from './transport.ts';
import { type EncodedMessage, toEncodedMessage } from './write-queue.ts';

/** Options of {@link createWebsocketListener}. Each has a default. */
export interface WebsocketListenerOptions extends ListenerOptions, Partial<StreamPublisherOptions> {
  /** TLS options. Default: no TLS. */
  readonly tls?: TlsOptions;
}

/** Event of a peer, except a protocol violation, which the connection itself handles. */
type PeerEvent = Exclude<WebsocketEvent, { readonly type: 'breach' }>;

/** Callbacks that differ between the request port and the publish port. */
interface PeerHandlers<Session extends StreamSession> {
  openSession(connection: StreamConnection): Session;
  /** Called when the handshake is complete. */
  onOpen?(session: Session): void;
  onMessage?(body: Uint8Array, session: Session): void;
}

/**
 * Maximum size of a message from a subscriber, in bytes. Minions send only the text `close` on this
 * connection. The master ignores other messages up to this size, and ends the connection after a
 * larger one.
 */
const maxSubscriberMessageBytes = 4096;
/**
 * Maximum size of a publication, in bytes. The minion's library, aiohttp, rejects messages of 4 MiB
 * and closes the connection. The minion does not reopen it [WIRE 4.2, 4.3].
 */
const maxPublicationBytes = 4 * 1024 * 1024 - 1;
/** Text message with which either side closes the connection [salt/transport/ws.py]. */
const closeText = Buffer.from('close');

/** Creates a listener. Call {@link MasterTransport.listen} to bind its ports. */
export function createWebsocketListener(options: WebsocketListenerOptions = {}): MasterTransport {
  const publisher = new StreamPublisher(
    { ...DEFAULT_STREAM_PUBLISHER_OPTIONS, maxMissed: Number.POSITIVE_INFINITY, ...options },
    { encode: encodePublication, maxBytes: maxPublicationBytes },
  );
  return createListener(
    {
      name: 'ws',
      publisher,
      requests: (service, { maxMessageBytes }) =>
        createPortProtocol(
          { awaitsRequest: true, hasHandshake: true, keepsStalled: false },
          websocketProtocol(maxMessageBytes, {
            openSession: (connection) => new RequestQueue(connection, service, ANSWER_FORM),
            onMessage: (body, queue) => queue.take(undefined, body),
          }),
        ),
      publications: () =>
        createPortProtocol(
          { awaitsRequest: false, hasHandshake: true, keepsStalled: true },
          websocketProtocol(maxSubscriberMessageBytes, {
            openSession: (connection) => new SubscriberLink(connection, publisher),
            onOpen: (link) => {
              publisher.add(link);
              link.ready();
            },
          }),
        ),
    },
    options,
    options.tls,
  );
}

/** Encodes a publication: one packed byte string that contains the packed envelope. */
function encodePublication(envelope: Uint8Array): Uint8Array[] {
  const body = Buffer.concat([binHead(envelope.length), envelope]);
  return encodeWebsocketFrame(OPCODE_BINARY, body);
}

function message(opcode: number, body: Uint8Array): EncodedMessage {
  return toEncodedMessage(encodeWebsocketFrame(opcode, body));
}

/**
 * Returns the protocol of a WebSocket port. It handles the handshake, PING and CLOSE, and passes
 * messages to `handlers`.
 */
function websocketProtocol<Session extends StreamSession>(
  maxMessageBytes: number,
  handlers: PeerHandlers<Session>,
): StreamProtocol<PeerEvent, Session> {
  return {
    createDecoder: () => new WebsocketDecoder(maxMessageBytes),
    openSession: handlers.openSession,
    onEvent: (event, session, connection) => {
      switch (event.type) {
        case 'upgrade':
          connection.send(toEncodedMessage([event.response]));
          connection.guarded.handshakeDone();
          handlers.onOpen?.(session);
          break;
        case 'message':
          if (!event.isText) handlers.onMessage?.(event.body, session);
          else if (Buffer.from(event.body).equals(closeText)) connection.endWhenWritten();
          break;
        case 'ping':
          connection.send(message(OPCODE_PONG, event.payload));
          break;
        case 'close':
          connection.send(toEncodedMessage([event.response]));
          connection.endWhenWritten();
          break;
      }
    },
  };
}

/**
 * Replies over WebSocket. Requests are processed concurrently, but replies are sent in the order of
 * the requests.
 */
const ANSWER_FORM: AnswerForm<undefined> = {
  encode: (_route, answer) => message(OPCODE_BINARY, answer),
  isOrdered: true,
};
