/** The master's end over Salt's TCP transport, with or without TLS [WIRE 4.2]. */
import {
  encodePublicationFrame,
  encodeReplyFrame,
  isMessageId,
  type TcpEvent,
  TcpFrameDecoder,
} from '../tcp-frames.ts';
import { type AnswerForm, peerOf, RequestQueue, type RequestService } from './request-queue.ts';
import type { StreamConnection, StreamSession } from './stream-connection.ts';
import { createListener, createPortProtocol, type ListenerOptions } from './stream-listener.ts';
import {
  DEFAULT_STREAM_PUBLISHER_OPTIONS,
  StreamPublisher,
  type StreamPublisherOptions,
  type SubscriberLink,
} from './stream-publisher.ts';
import type { TlsOptions } from './tls.ts';
import type { AnnouncementHandler, MasterTransport, Peer } from './transport.ts';
import { toEncodedMessage } from './write-queue.ts';

/** Options of {@link createTcpListener}; each has a default. */
export interface TcpListenerOptions extends ListenerOptions, Partial<StreamPublisherOptions> {
  /** Default: no TLS. */
  readonly tls?: TlsOptions;
}

/** Breaches are the connection's own business. */
type PeerEvent = Exclude<TcpEvent, { readonly type: 'breach' }>;

/** An announcement is an id and a signature of at most 8192 bits, encrypted. */
const maxAnnouncementBytes = 4096;
/** Real minions announce themselves once; each more costs us a look at a signature. */
const maxAnnouncements = 16;
/**
 * From the announcement of a minion that came back until it knows itself that it is connected.
 * Minions up to 3005 run a job before that, and do not return it [salt/transport/tcp.py
 * connect_callback, salt/minion.py _thread_return].
 */
const subscriptionDelayMs = 1000;
/** What a minion's MessagePack library takes by default. */
const maxPublicationBytes = 100 * 1024 * 1024;

/** Makes a listener that is not bound yet: {@link MasterTransport.listen} does that. */
export function createTcpListener(options: TcpListenerOptions = {}): MasterTransport {
  const publisher = new StreamPublisher(
    { ...DEFAULT_STREAM_PUBLISHER_OPTIONS, ...options },
    { encode: encodePublicationFrame, maxBytes: maxPublicationBytes },
  );
  return createListener(
    {
      name: 'tcp',
      publisher,
      requests: (service, { maxMessageBytes }) =>
        createPortProtocol(
          { awaitsRequest: true, hasHandshake: false, keepsStalled: false },
          {
            createDecoder: () => new TcpFrameDecoder(maxMessageBytes),
            openSession: (connection) => new TcpRequestSession(connection, service),
          },
        ),
      publications: (announce, publishPort) =>
        createPortProtocol(
          // The request that is due is the announcement.
          { awaitsRequest: true, hasHandshake: false, keepsStalled: true },
          {
            createDecoder: () => new TcpFrameDecoder(maxAnnouncementBytes),
            openSession: (connection) =>
              new TcpSubscriberSession(connection, publisher.open(connection), announce, {
                transport: 'tcp',
                publishPort,
              }),
          },
        ),
    },
    options,
    options.tls,
  );
}

/** The route of an answer is the head of its request. Clients match answers by it [WIRE 4.2]. */
const ANSWER_FORM: AnswerForm<Uint8Array> = {
  encode: (head, answer) => toEncodedMessage(encodeReplyFrame(head, answer)),
  isOrdered: false,
};

/** Answers the requests of one connection, each as soon as its answer is ready. */
class TcpRequestSession implements StreamSession<PeerEvent> {
  readonly #connection: StreamConnection;
  readonly #queue: RequestQueue<Uint8Array>;

  constructor(connection: StreamConnection, service: RequestService) {
    this.#connection = connection;
    this.#queue = new RequestQueue(connection, service, ANSWER_FORM);
  }

  onEvent({ head, mid, body }: PeerEvent): void {
    if (isMessageId(mid)) this.#queue.take(head, body);
    else this.#connection.refuse('message-id');
  }

  onWritten(): void {
    this.#queue.onWritten();
  }

  onClosed(): void {
    this.#queue.onClosed();
  }

  finish(): void {
    this.#queue.finish();
  }
}

/** One minion at the publish port: it says who it is, once, and listens. */
class TcpSubscriberSession implements StreamSession<PeerEvent> {
  readonly #connection: StreamConnection;
  readonly #link: SubscriberLink;
  readonly #announce: AnnouncementHandler;
  readonly #peer: Peer;
  readonly #waiting: Uint8Array[] = [];
  #announcements = 0;
  #isVerifying = false;

  constructor(
    connection: StreamConnection,
    link: SubscriberLink,
    announce: AnnouncementHandler,
    about: Pick<RequestService, 'transport' | 'publishPort'>,
  ) {
    this.#connection = connection;
    this.#link = link;
    this.#announce = announce;
    this.#peer = peerOf(connection, about);
  }

  onEvent({ body }: PeerEvent): void {
    this.#connection.guarded.requestDone();
    this.#announcements += 1;
    if (this.#announcements > maxAnnouncements) return;
    this.#waiting.push(body);
    if (!this.#isVerifying) void this.#verify();
  }

  onWritten(): void {
    // Nothing waits outside the connection's queue.
  }

  onClosed(): void {
    this.#waiting.length = 0;
    this.#link.onClosed();
  }

  finish(): void {
    this.#connection.endWhenWritten();
  }

  /** One announcement after the other: each costs work. */
  async #verify(): Promise<void> {
    this.#isVerifying = true;
    for (let body = this.#waiting.shift(); body !== undefined; body = this.#waiting.shift()) {
      await this.#announce(body, this.#peer);
      this.#link.ready(subscriptionDelayMs);
    }
    this.#isVerifying = false;
  }
}
