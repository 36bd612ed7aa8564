/** The master's end over WebSocket, with or without TLS [WIRE 4.3; salt/transport/ws.py]. */
import { Buffer } from 'node:buffer';
import { binHead } from '../tcp-frames.ts';
import {
  encodeWebsocketFrame,
  OPCODE_BINARY,
  OPCODE_PONG,
  WebsocketDecoder,
  type WebsocketEvent,
} from '../websocket.ts';
import { type AnswerForm, RequestQueue, type RequestService } from './request-queue.ts';
import type { StreamConnection, StreamProtocol, StreamSession } from './stream-connection.ts';
import { createListener, createPortProtocol, type ListenerOptions } from './stream-listener.ts';
import {
  DEFAULT_STREAM_PUBLISHER_OPTIONS,
  StreamPublisher,
  type StreamPublisherOptions,
  type SubscriberLink,
} from './stream-publisher.ts';
import type { TlsOptions } from './tls.ts';
import type { MasterTransport } from './transport.ts';
import { type EncodedMessage, singleChunkMessage, toEncodedMessage } from './write-queue.ts';

/** Options of {@link createWebsocketListener}; each has a default. */
export interface WebsocketListenerOptions extends ListenerOptions, Partial<StreamPublisherOptions> {
  /** Default: no TLS. */
  readonly tls?: TlsOptions;
}

/** Breaches are the connection's own business. */
type PeerEvent = Exclude<WebsocketEvent, { readonly type: 'breach' }>;

/** What a role does with a peer. */
interface WebsocketRole {
  /** The handshake is complete. */
  onOpen?(): void;
  onMessage(body: Uint8Array): void;
  onWritten(): void;
  onClosed(): void;
  finish(): void;
}

/** A subscriber has nothing to say; small messages are let pass unread. */
const maxSubscriberMessageBytes = 4096;
/**
 * aiohttp, the minion's end, refuses messages of 4 MiB, and closes a connection that a minion does
 * not open again: such a publication must not be sent [WIRE 4.2, 4.3].
 */
const maxPublicationBytes = 4 * 1024 * 1024 - 1;
/** Either side says good-bye with a text message of this content [salt/transport/ws.py]. */
const closeText = 'close';

/** Makes a listener that is not bound yet: {@link MasterTransport.listen} does that. */
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
          websocketProtocol(maxMessageBytes, (connection) => requestRole(connection, service)),
        ),
      publications: () =>
        createPortProtocol(
          { awaitsRequest: false, hasHandshake: true, keepsStalled: true },
          websocketProtocol(
            maxSubscriberMessageBytes,
            (connection) => new SubscriberRole(connection, publisher),
          ),
        ),
    },
    options,
    options.tls,
  );
}

/** A publication is one byte string, packed, that holds the packed envelope. */
function encodePublication(envelope: Uint8Array): Uint8Array[] {
  const body = Buffer.concat([binHead(envelope.length), envelope]);
  return encodeWebsocketFrame(OPCODE_BINARY, body);
}

function message(opcode: number, body: Uint8Array): EncodedMessage {
  return toEncodedMessage(encodeWebsocketFrame(opcode, body));
}

function websocketProtocol(
  maxMessageBytes: number,
  openRole: (connection: StreamConnection) => WebsocketRole,
): StreamProtocol<PeerEvent> {
  return {
    createDecoder: () => new WebsocketDecoder(maxMessageBytes),
    openSession: (connection) => new WebsocketPeer(connection, openRole(connection)),
  };
}

/** Handshake, PING and CLOSE, for either role. */
class WebsocketPeer implements StreamSession<PeerEvent> {
  readonly #connection: StreamConnection;
  readonly #role: WebsocketRole;

  constructor(connection: StreamConnection, role: WebsocketRole) {
    this.#connection = connection;
    this.#role = role;
  }

  onEvent(event: PeerEvent): void {
    switch (event.type) {
      case 'upgrade':
        this.#connection.send(singleChunkMessage(event.response));
        this.#connection.guarded.handshakeDone();
        this.#role.onOpen?.();
        break;
      case 'message':
        this.#onMessage(event.isText, event.body);
        break;
      case 'ping':
        this.#connection.send(message(OPCODE_PONG, event.payload));
        break;
      case 'close':
        this.#connection.send(singleChunkMessage(event.response));
        this.#connection.endWhenWritten();
        break;
    }
  }

  onWritten(): void {
    this.#role.onWritten();
  }

  onClosed(): void {
    this.#role.onClosed();
  }

  finish(): void {
    this.#role.finish();
  }

  #onMessage(isText: boolean, body: Uint8Array): void {
    if (!isText) this.#role.onMessage(body);
    else if (Buffer.from(body).equals(Buffer.from(closeText))) this.#connection.endWhenWritten();
  }
}

const ANSWER_FORM: AnswerForm<undefined> = {
  encode: (_route, answer) => message(OPCODE_BINARY, answer),
  isOrdered: true,
};

/** Answers the requests of one connection: side by side, but the answers leave in order. */
function requestRole(connection: StreamConnection, service: RequestService): WebsocketRole {
  const queue = new RequestQueue(connection, service, ANSWER_FORM);
  return {
    onMessage: (body) => queue.take(undefined, body),
    onWritten: () => queue.onWritten(),
    onClosed: () => queue.onClosed(),
    finish: () => queue.finish(),
  };
}

/** One peer of the publish port: a subscriber once the handshake is complete. */
class SubscriberRole implements WebsocketRole {
  readonly #connection: StreamConnection;
  readonly #publisher: StreamPublisher;
  #link: SubscriberLink | undefined;

  constructor(connection: StreamConnection, publisher: StreamPublisher) {
    this.#connection = connection;
    this.#publisher = publisher;
  }

  onOpen(): void {
    this.#link = this.#publisher.open(this.#connection);
    this.#link.ready();
  }

  onMessage(): void {
    // Minions say nothing here.
  }

  onWritten(): void {
    // Nothing waits outside the connection's queue.
  }

  onClosed(): void {
    this.#link?.onClosed();
  }

  finish(): void {
    this.#connection.endWhenWritten();
  }
}
