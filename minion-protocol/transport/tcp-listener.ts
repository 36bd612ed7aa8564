/** The master's end of Salt's TCP transport, with or without TLS [WIRE 4.2]. */
import {
  encodePublicationFrame,
  encodeReplyFrame,
  isMessageId,
  type TcpEvent,
  TcpFrameDecoder,
} from '../tcp-frames.ts';
import { type AnswerForm, peerOf, RequestQueue } from './request-queue.ts';
import type { StreamSession } from './stream-connection.ts';
import { createListener, createPortProtocol, type ListenerOptions } from './stream-listener.ts';
import {
  DEFAULT_STREAM_PUBLISHER_OPTIONS,
  StreamPublisher,
  type StreamPublisherOptions,
  SubscriberLink,
} from './stream-publisher.ts';
import type { TlsOptions } from './tls.ts';
import type { AnnouncementHandler, MasterTransport, Peer } from './transport.ts';
import { toEncodedMessage } from './write-queue.ts';

/** Options of {@link createTcpListener}. Each has a default. */
export interface TcpListenerOptions extends ListenerOptions, Partial<StreamPublisherOptions> {
  /** TLS options. Default: no TLS. */
  readonly tls?: TlsOptions;
}

/**
 * Event of a peer. Protocol violations are excluded, because the connection itself handles them.
 */
type PeerEvent = Exclude<TcpEvent, { readonly type: 'breach' }>;

/**
 * Maximum size of an announcement, in bytes. It contains an id and a signature of at most 8192
 * bits, and is encrypted.
 */
const maxAnnouncementBytes = 4096;
/**
 * Maximum number of announcements on a connection. Further ones are ignored. Real minions send one,
 * and each costs a signature check.
 */
const maxAnnouncements = 16;
/**
 * Delay in milliseconds before stored publications are sent to a minion that has announced itself.
 * A new publication ends the delay. The delay is needed because minions up to 3005 do not return
 * the result of a job that they receive before they have noticed the connection
 * [salt/transport/tcp.py connect_callback, salt/minion.py _thread_return].
 */
const subscriptionDelayMs = 1000;
/** Default message limit of the minion's MessagePack library, in bytes. */
const maxPublicationBytes = 100 * 1024 * 1024;

/** Creates a listener. Call {@link MasterTransport.listen} to bind its ports. */
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
            openSession: (connection) => new RequestQueue(connection, service, ANSWER_FORM),
            onEvent: ({ head, mid, body }: PeerEvent, queue, connection) => {
              if (isMessageId(mid)) queue.take(head, body);
              else connection.guarded.refuse('message-id');
            },
          },
        ),
      publications: (announce, publishPort) =>
        createPortProtocol(
          // The first request on this port is the announcement.
          { awaitsRequest: true, hasHandshake: false, keepsStalled: true },
          {
            createDecoder: () => new TcpFrameDecoder(maxAnnouncementBytes),
            openSession: (connection) => {
              const link = new SubscriberLink(connection, publisher);
              publisher.add(link);
              const peer = peerOf(connection, { transport: 'tcp', publishPort });
              return new Announcements(link, announce, peer);
            },
            onEvent: ({ body }: PeerEvent, announcements, connection) => {
              connection.guarded.requestDone();
              announcements.take(body);
            },
          },
        ),
    },
    options,
    options.tls,
  );
}

/**
 * Form of replies over TCP. Each reply carries the head of its request, so replies may be sent in
 * any order [WIRE 4.2].
 */
const ANSWER_FORM: AnswerForm<Uint8Array> = {
  encode: (head, answer) => toEncodedMessage(encodeReplyFrame(head, answer)),
  isOrdered: false,
};

/**
 * Announcements that one subscriber sends on the publish port. A subscriber receives new
 * publications even without an announcement. After its announcement, it also receives the stored
 * publications.
 */
class Announcements implements StreamSession {
  readonly #link: SubscriberLink;
  readonly #announce: AnnouncementHandler;
  readonly #peer: Peer;
  readonly #waiting: Uint8Array[] = [];
  #count = 0;
  #isVerifying = false;

  constructor(link: SubscriberLink, announce: AnnouncementHandler, peer: Peer) {
    this.#link = link;
    this.#announce = announce;
    this.#peer = peer;
  }

  take(body: Uint8Array): void {
    this.#count += 1;
    if (this.#count > maxAnnouncements) return;
    this.#waiting.push(body);
    if (!this.#isVerifying) void this.#verify();
  }

  onClosed(): void {
    this.#waiting.length = 0;
    this.#link.onClosed();
  }

  /** Verifies the announcements one after the other, because each verification is costly. */
  async #verify(): Promise<void> {
    this.#isVerifying = true;
    for (let body = this.#waiting.shift(); body !== undefined; body = this.#waiting.shift()) {
      await this.#announce(body, this.#peer);
      this.#link.ready(subscriptionDelayMs);
    }
    this.#isVerifying = false;
  }
}
