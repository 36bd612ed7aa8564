/** The master's end over ZeroMQ: ROUTER and PUB, spoken by `zmtp.ts` over `node:net`. */

import { Buffer } from 'node:buffer';
import { MultiMap } from '../../runtime/index.ts';
import {
  DEFAULT_ZMTP_LIMITS,
  encodeGreeting,
  encodeMessage,
  encodePing,
  encodePong,
  encodeReady,
  latin1,
  ZmtpDecoder,
  type ZmtpEvent,
  type ZmtpLimits,
  type ZmtpRole,
} from '../zmtp.ts';
import {
  type AnswerForm,
  type ConnectionLimits,
  createListener,
  createPortProtocol,
  DEFAULT_SUBSCRIBER_QUEUE_LIMITS,
  type EncodedMessage,
  type ListenerOptions,
  type PortProtocol,
  PublicationReplayBuffer,
  RequestQueue,
  type RequestService,
  type StreamConnection,
  type StreamProtocol,
  type StreamSession,
  type SubscriberQueueLimits,
  singleChunkMessage,
  toEncodedMessage,
  tryQueueMessage,
} from './stream-listener.ts';
import {
  BROADCAST_TOPIC,
  type MasterTransport,
  minionTopic,
  type OutgoingPublication,
  type PublishOutcome,
  type SubscriberInfo,
  SYNDIC_TOPIC,
} from './transport.ts';

// One ZeroMQ peer: handshake and PING, for either role.

/** What the two roles do differently with a peer. */
interface ZeromqSession {
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

function zeromqProtocol(
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

/** Who subscribed to what: ZeroMQ's rule is that a topic matches everything that begins with it. */
class TopicIndex<Subscriber extends object> {
  readonly #subscribers = new MultiMap<string, Subscriber>();
  /** How many topics there are of each length: only these prefixes are worth looking up. */
  readonly #lengths = new Map<number, number>();

  add(topic: string, subscriber: Subscriber): void {
    if (!this.#subscribers.add(topic, subscriber)) return;
    this.#lengths.set(topic.length, (this.#lengths.get(topic.length) ?? 0) + 1);
  }

  delete(topic: string, subscriber: Subscriber): void {
    if (!this.#subscribers.delete(topic, subscriber)) return;
    const left = (this.#lengths.get(topic.length) ?? 1) - 1;
    if (left === 0) this.#lengths.delete(topic.length);
    else this.#lengths.set(topic.length, left);
  }

  /** Those who subscribed to exactly this topic. */
  exact(topic: string): Iterable<Subscriber> {
    return this.#subscribers.get(topic);
  }

  /** Those who subscribed to anything. */
  everybody(): ReadonlySet<Subscriber> {
    return new Set(this.#subscribers.all());
  }

  /** The subscribed topics that are a beginning of `text` and shorter than it. */
  shorterPrefixes(text: string): string[] {
    const prefixes: string[] = [];
    for (const length of this.#lengths.keys()) {
      const prefix = text.slice(0, length);
      if (length < text.length && this.#subscribers.has(prefix)) prefixes.push(prefix);
    }
    return prefixes;
  }
}

// One peer of the publish socket: what it subscribed to and what waits for it.

/** What a subscription costs besides its bytes: entries in a list, a set and a map. */
const BYTES_PER_TOPIC = 128;

const noTopics: readonly string[] = [];

interface ZeromqSubscriberLimits extends SubscriberQueueLimits {
  readonly maxTopics: number;
  /** Between two PINGs, milliseconds. Default: none. */
  readonly pingMs?: number | undefined;
}

class ZeromqSubscriberSession implements ZeromqSession {
  readonly #connection: StreamConnection;
  readonly #index: TopicIndex<ZeromqSubscriberSession>;
  readonly #bounds: ZeromqSubscriberLimits;
  readonly #onFirstTopic: (session: ZeromqSubscriberSession) => void;
  #hasNamedTopics = false;
  /** Nearly always one: a list of that takes a third of what a set does. */
  #topics: readonly string[] = noTopics;
  #topicBytes = 0;
  readonly #pings: NodeJS.Timeout | undefined;

  constructor(
    connection: StreamConnection,
    index: TopicIndex<ZeromqSubscriberSession>,
    bounds: ZeromqSubscriberLimits,
    onFirstTopic: (session: ZeromqSubscriberSession) => void,
  ) {
    this.#connection = connection;
    this.#index = index;
    this.#bounds = bounds;
    this.#onFirstTopic = onFirstTopic;
    const { pingMs } = bounds;
    if (pingMs !== undefined) this.#pings = setInterval(() => this.#ping(), pingMs).unref();
  }

  get topics(): readonly string[] {
    return this.#topics;
  }

  describe(): SubscriberInfo {
    return {
      address: this.#connection.guarded.address,
      connectedAt: this.#connection.guarded.connectedAt,
      topics: this.#topics,
      minionIds: [],
      queuedBytes: this.#connection.queue.bytes,
    };
  }

  /** Queues a message; false if the queue is full and this subscriber goes without. */
  offer(message: EncodedMessage): boolean {
    return tryQueueMessage(this.#connection, message, this.#bounds);
  }

  /** Ends the connection, whatever waits for it. */
  disconnect(): void {
    this.#connection.guarded.end();
  }

  onMessage(): void {
    // The decoder turns every message to PUB into a subscription.
  }

  onSubscription(topic: string, isWanted: boolean): void {
    if (isWanted) this.#subscribe(topic);
    else this.#cancel(topic);
    this.#connection.setExtraBytes(this.#topicBytes);
    if (this.#hasNamedTopics) return;
    this.#hasNamedTopics = true;
    this.#onFirstTopic(this);
  }

  onWritten(): void {
    // Nothing waits outside the connection's queue.
  }

  onClosed(): void {
    clearInterval(this.#pings);
    for (const topic of this.#topics) this.#index.delete(topic, this);
    this.#topics = noTopics;
  }

  finish(): void {
    this.#connection.endWhenWritten();
  }

  /** The peer answers, so that neither side is silent to a relay. */
  #ping(): void {
    const isReady = this.#hasNamedTopics && this.#connection.queue.messages === 0;
    if (isReady) this.#connection.send(singleChunkMessage(encodePing()));
  }

  #subscribe(topic: string): void {
    if (this.#topics.includes(topic)) return;
    if (this.#topics.length >= this.#bounds.maxTopics) {
      this.#connection.refuse('too-many-topics');
      return;
    }
    this.#topics = this.#topics.concat(topic);
    this.#topicBytes += topic.length + BYTES_PER_TOPIC;
    this.#index.add(topic, this);
  }

  #cancel(topic: string): void {
    if (!this.#topics.includes(topic)) return;
    this.#topics = this.#topics.filter((other) => other !== topic);
    this.#topicBytes -= topic.length + BYTES_PER_TOPIC;
    this.#index.delete(topic, this);
  }
}

// The publish socket: what PUB does for SUB and XSUB peers [WIRE 4.1].

interface ZeromqPublisherOptions extends SubscriberQueueLimits {
  /** Salt's `zmq_filtering`: a topic frame before each envelope. Default false. */
  readonly filtering: boolean;
  /** Salt's `order_masters`: publications to ids go to the topic `syndic` too. Default false. */
  readonly orderMasters: boolean;
  /** Topics of one subscriber. Default 1000. */
  readonly maxTopics: number;
  /** Bytes of one topic. Default 256. */
  readonly maxTopicBytes: number;
}

const DEFAULT_ZEROMQ_PUBLISHER_OPTIONS: ZeromqPublisherOptions = {
  filtering: false,
  orderMasters: false,
  ...DEFAULT_SUBSCRIBER_QUEUE_LIMITS,
  // protection: topics-without-end
  maxTopics: 1000,
  maxTopicBytes: 256,
};

/** Sends publications to those whose topics match, each through a queue of its own. */
class ZeromqPublisher {
  readonly #options: ZeromqPublisherOptions;
  /** Those who listen. */
  readonly #index = new TopicIndex<ZeromqSubscriberSession>();
  readonly #held: PublicationReplayBuffer<ZeromqSubscriberSession>;

  constructor(options: ZeromqPublisherOptions) {
    this.#options = options;
    this.#held = new PublicationReplayBuffer(options, (publication, to) =>
      this.#sendTo(publication, to),
    );
  }

  openSession(connection: StreamConnection, pingMs?: number): ZeromqSubscriberSession {
    const bounds = pingMs === undefined ? this.#options : { ...this.#options, pingMs };
    return new ZeromqSubscriberSession(connection, this.#index, bounds, (session) =>
      this.#welcome(session),
    );
  }

  publish(publication: OutgoingPublication): PublishOutcome {
    this.#held.add(publication);
    return this.#send(publication, this.#index);
  }

  /** It is ready after this chunk: a peer names all its topics at once when it connects. */
  #welcome(session: ZeromqSubscriberSession): void {
    this.#held.addSubscriber(session);
    queueMicrotask(() => this.#held.replay(session));
  }

  #sendTo(publication: OutgoingPublication, session: ZeromqSubscriberSession): void {
    const index = new TopicIndex<ZeromqSubscriberSession>();
    for (const topic of session.topics) index.add(topic, session);
    this.#send(publication, index);
  }

  #send(
    publication: OutgoingPublication,
    index: TopicIndex<ZeromqSubscriberSession>,
  ): PublishOutcome {
    const delivery = new Delivery();
    if (this.#options.filtering) this.#sendByTopic(publication, index, delivery);
    else this.#sendToAll(publication.envelope, index, delivery);
    return { queued: delivery.reached.size, skipped: delivery.skipped.size };
  }

  /** Ends the subscribers that asked for this minion's own topic. */
  disconnect(minionId: string): void {
    if (!this.#options.filtering) return;
    for (const session of [...this.#index.exact(minionTopic(minionId))]) session.disconnect();
  }

  subscribers(): SubscriberInfo[] {
    return Array.from(this.#index.everybody(), (session) => session.describe());
  }

  /** Without topics the message itself is what subscriptions match. */
  #sendToAll(
    envelope: Uint8Array,
    index: TopicIndex<ZeromqSubscriberSession>,
    delivery: Delivery,
  ): void {
    const message = toEncodedMessage(encodeMessage([envelope]));
    const beginning = latin1(envelope.subarray(0, this.#options.maxTopicBytes));
    for (const prefix of [beginning, ...index.shorterPrefixes(beginning)]) {
      for (const session of index.exact(prefix)) delivery.offerOnce(session, message);
    }
  }

  /**
   * One message for each topic to those who named it. A subscriber by a shorter prefix, mostly `''`
   * of a minion that does not filter, gets the first that matches and no more: the envelope is the
   * same in all, and the minion would only drop the others by their jid.
   */
  #sendByTopic(
    { envelope, minionIds }: OutgoingPublication,
    index: TopicIndex<ZeromqSubscriberSession>,
    delivery: Delivery,
  ): void {
    const firstOfPrefix = new Map<string, string>();
    for (const topic of this.#topicsFor(minionIds)) {
      let message: EncodedMessage | undefined;
      for (const session of index.exact(topic)) {
        message ??= topicMessage(topic, envelope);
        delivery.offer(session, message);
      }
      for (const prefix of index.shorterPrefixes(topic)) {
        if (!firstOfPrefix.has(prefix)) firstOfPrefix.set(prefix, topic);
      }
    }
    for (const [prefix, topic] of firstOfPrefix) {
      const message = topicMessage(topic, envelope);
      for (const session of index.exact(prefix)) delivery.offerOnce(session, message);
    }
  }

  #topicsFor(minionIds: readonly string[] | null): readonly string[] {
    if (minionIds === null) return [BROADCAST_TOPIC];
    const topics = Array.from(new Set(minionIds), minionTopic);
    if (this.#options.orderMasters && topics.length > 0) topics.push(SYNDIC_TOPIC);
    return topics;
  }
}

/** Who was reached by one publication, and who was passed over. */
class Delivery {
  readonly reached = new Set<ZeromqSubscriberSession>();
  readonly skipped = new Set<ZeromqSubscriberSession>();

  offer(session: ZeromqSubscriberSession, message: EncodedMessage): void {
    if (session.offer(message)) this.reached.add(session);
    else this.skipped.add(session);
  }

  offerOnce(session: ZeromqSubscriberSession, message: EncodedMessage): void {
    if (!this.reached.has(session)) this.offer(session, message);
  }
}

function topicMessage(topic: string, envelope: Uint8Array): EncodedMessage {
  return toEncodedMessage(encodeMessage([Buffer.from(topic, 'latin1'), envelope]));
}

// The request socket: what ROUTER does for REQ and DEALER peers [WIRE 4.1].
//
// request = *envelope empty body      answer = the same envelope, empty, answer
//
// REQ sends no envelope; a DEALER may send some frames, which come back with its answer.

/** As long as a routing id may be [RFC 23]. */
const MAX_ENVELOPE_FRAME_BYTES = 255;

/** The frames up to and including the empty one. */
type RoutingEnvelope = readonly Uint8Array[];

const ANSWER_FORM: AnswerForm<RoutingEnvelope> = {
  encode: (envelope, answer) => toEncodedMessage(encodeMessage([...envelope, answer])),
  isOrdered: true,
};

/** Answers the requests of one connection: side by side, but the answers leave in order. */
class ZeromqRequestSession implements ZeromqSession {
  readonly #connection: StreamConnection;
  readonly #queue: RequestQueue<RoutingEnvelope>;

  constructor(connection: StreamConnection, service: RequestService) {
    this.#connection = connection;
    this.#queue = new RequestQueue(connection, service, ANSWER_FORM);
  }

  onMessage(frames: readonly Uint8Array[]): void {
    const request = splitRequest(frames);
    if (request === undefined) this.#connection.refuse('bad-request');
    else this.#queue.take(request.envelope, request.body);
  }

  onSubscription(): void {
    // The decoder lets no ROUTER peer subscribe.
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

/** `undefined` for what is no request: no empty frame, or not exactly one frame behind it. */
function splitRequest(
  frames: readonly Uint8Array[],
): { readonly envelope: RoutingEnvelope; readonly body: Uint8Array } | undefined {
  const empty = frames.findIndex((frame) => frame.length === 0);
  const body = frames[empty + 1];
  if (empty === -1 || body === undefined || frames.length !== empty + 2) return undefined;
  const envelope = frames.slice(0, empty + 1);
  return envelope.some((frame) => frame.length > MAX_ENVELOPE_FRAME_BYTES)
    ? undefined
    : { envelope, body };
}

/** Options of {@link createZeromqListener}; each has a default. */
export interface ZeromqListenerOptions extends ListenerOptions, Partial<ZeromqPublisherOptions> {}

/** Makes a listener that is not bound yet: {@link MasterTransport.listen} does that. */
export function createZeromqListener(options: ZeromqListenerOptions = {}): MasterTransport {
  const publisherOptions = { ...DEFAULT_ZEROMQ_PUBLISHER_OPTIONS, ...options };
  const publisher = new ZeromqPublisher(publisherOptions);
  return createListener(
    {
      name: 'zeromq',
      publisher,
      requests: createRequestPort,
      publications: (_announce, _publishPort, pingMs) =>
        createPublishPort(publisher, publisherOptions, pingMs),
    },
    options,
  );
}

/** A listener with a request port alone, for programs on the master's host: nobody subscribes. */
export function createZeromqRequestListener(
  options: Omit<ListenerOptions, 'publishPort'>,
): MasterTransport {
  const publisher = { publish: () => ({ queued: 0, skipped: 0 }), subscribers: () => [] };
  return createListener({ name: 'zeromq', publisher, requests: createRequestPort }, options);
}

function createRequestPort(
  service: RequestService,
  { maxMessageBytes }: Pick<ConnectionLimits, 'maxMessageBytes'>,
): PortProtocol {
  return createPortProtocol(
    { awaitsRequest: true, hasHandshake: true, keepsStalled: false },
    zeromqProtocol(
      'ROUTER',
      { ...DEFAULT_ZMTP_LIMITS, maxMessageBytes },
      (connection) => new ZeromqRequestSession(connection, service),
    ),
  );
}

function createPublishPort(
  publisher: ZeromqPublisher,
  { maxTopicBytes }: ZeromqPublisherOptions,
  pingMs: number | undefined,
): PortProtocol {
  return createPortProtocol(
    { awaitsRequest: false, hasHandshake: true, keepsStalled: false },
    zeromqProtocol(
      'PUB',
      // A peer of PUB has nothing to say but subscriptions: one byte and the topic.
      { ...DEFAULT_ZMTP_LIMITS, maxMessageBytes: 1 + maxTopicBytes, maxTopicBytes },
      (connection) => publisher.openSession(connection, pingMs),
    ),
  );
}
