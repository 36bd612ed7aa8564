/** The publish socket: implements PUB for SUB and XSUB peers [WIRE 4.1]. */

import { Buffer } from 'node:buffer';
import { PublicationReplayBuffer } from './publication-replay.ts';
import type { StreamConnection, StreamSession } from './stream-connection.ts';
import {
  DEFAULT_SUBSCRIBER_QUEUE_LIMITS,
  type SubscriberQueueLimits,
  tryQueueMessage,
} from './subscriber-queue.ts';
import { TopicIndex } from './topic-index.ts';
import {
  BROADCAST_TOPIC,
  minionTopic,
  type OutgoingPublication,
  type PublishOutcome,
  type SubscriberInfo,
  SYNDIC_TOPIC,
} from './transport.ts';
import { type EncodedMessage, toEncodedMessage } from './write-queue.ts';
import { encodePing, latin1 } from './zmtp-commands.ts';
import { encodeMessage } from './zmtp-frames.ts';

/** Memory overhead of a subscription, in bytes: its entries in a list, a set and a map. */
const BYTES_PER_TOPIC = 128;

const noTopics: string[] = [];

interface ZeromqSubscriberLimits extends SubscriberQueueLimits {
  readonly maxTopics: number;
  /** Interval between two PINGs, in milliseconds. Default: no PINGs. */
  readonly pingMs?: number | undefined;
}

class ZeromqSubscriberSession implements StreamSession {
  readonly #connection: StreamConnection;
  readonly #index: TopicIndex<ZeromqSubscriberSession>;
  readonly #bounds: ZeromqSubscriberLimits;
  readonly #onFirstTopic: (session: ZeromqSubscriberSession) => void;
  #hasNamedTopics = false;
  /** Subscribed topics, almost always one. A list of one takes a third of the memory of a set. */
  #topics: string[] = noTopics;
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
      topics: [...this.#topics],
      minionIds: [],
      queuedBytes: this.#connection.queue.bytes,
    };
  }

  /**
   * Queues a message. Returns `false` if the queue is full. The subscriber then does not receive
   * the message.
   */
  offer(message: EncodedMessage): boolean {
    return tryQueueMessage(this.#connection, message, this.#bounds);
  }

  /** Ends the connection and discards its queue. */
  disconnect(): void {
    this.#connection.guarded.end();
  }

  onSubscription(topic: string, isWanted: boolean): void {
    if (isWanted) this.#subscribe(topic);
    else this.#cancel(topic);
    this.#connection.setExtraBytes(this.#topicBytes);
    if (this.#hasNamedTopics) return;
    this.#hasNamedTopics = true;
    this.#onFirstTopic(this);
  }

  onClosed(): void {
    clearInterval(this.#pings);
    for (const topic of this.#topics) this.#index.delete(topic, this);
    this.#topics = noTopics;
  }

  /**
   * Sends a PING. The peer answers, so that a relay between them sees traffic in both directions.
   */
  #ping(): void {
    const isReady = this.#hasNamedTopics && this.#connection.queue.messages === 0;
    if (isReady) this.#connection.send(toEncodedMessage([encodePing()]));
  }

  #subscribe(topic: string): void {
    if (this.#index.has(topic, this)) return;
    if (this.#topics.length >= this.#bounds.maxTopics) {
      this.#connection.guarded.refuse('too-many-topics');
      return;
    }
    if (this.#topics === noTopics) this.#topics = [topic];
    else this.#topics.push(topic);
    this.#topicBytes += topic.length + BYTES_PER_TOPIC;
    this.#index.add(topic, this);
  }

  #cancel(topic: string): void {
    if (!this.#index.has(topic, this)) return;
    this.#topics.splice(this.#topics.indexOf(topic), 1);
    this.#topicBytes -= topic.length + BYTES_PER_TOPIC;
    this.#index.delete(topic, this);
  }
}

export interface ZeromqPublisherOptions extends SubscriberQueueLimits {
  /** Whether a topic frame precedes each envelope (Salt's `zmq_filtering`). Default: `false`. */
  readonly filtering: boolean;
  /**
   * Whether publications to ids are also sent to the topic `syndic` (Salt's `order_masters`).
   * Default: `false`.
   */
  readonly orderMasters: boolean;
  /** Maximum number of topics of one subscriber. Default: 1,000. */
  readonly maxTopics: number;
  /** Maximum size of a topic, in bytes. Default: 256. */
  readonly maxTopicBytes: number;
}

export const DEFAULT_ZEROMQ_PUBLISHER_OPTIONS: ZeromqPublisherOptions = {
  filtering: false,
  orderMasters: false,
  ...DEFAULT_SUBSCRIBER_QUEUE_LIMITS,
  maxTopics: 1000,
  maxTopicBytes: 256,
};

/** Sends publications to the subscribers with a matching topic, each through its own queue. */
export class ZeromqPublisher {
  readonly #options: ZeromqPublisherOptions;
  /** Subscribers by topic. */
  readonly #index = new TopicIndex<ZeromqSubscriberSession>();
  readonly #held: PublicationReplayBuffer<ZeromqSubscriberSession>;
  /** Topics of stored publications, sorted. All new subscribers share them. */
  readonly #sorted = new WeakMap<OutgoingPublication, readonly string[]>();

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

  /**
   * Registers a new subscriber, and sends the stored publications to it. A peer sends all its
   * subscriptions in its first chunk. Therefore the publications are sent only after the current
   * chunk has been processed.
   */
  #welcome(session: ZeromqSubscriberSession): void {
    this.#held.addSubscriber(session);
    queueMicrotask(() => this.#held.replay(session));
  }

  /**
   * Sends a stored publication to a new subscriber. The time does not depend on the number of ids
   * to which the publication is addressed.
   */
  #sendTo(publication: OutgoingPublication, session: ZeromqSubscriberSession): void {
    const { envelope } = publication;
    const sorted = this.#options.filtering ? this.#sortedTopics(publication) : undefined;
    const beginning = this.#beginningOf(envelope);
    for (const topic of session.topics) {
      const matched = firstWith(topic, sorted ?? [beginning]);
      if (matched === undefined) continue;
      const frames = sorted === undefined ? [envelope] : [Buffer.from(matched, 'latin1'), envelope];
      session.offer(toEncodedMessage(encodeMessage(frames)));
      return;
    }
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

  /** Disconnects the subscribers of this minion's own topic. */
  disconnect(minionId: string): void {
    if (!this.#options.filtering) return;
    for (const session of [...this.#index.exact(minionTopic(minionId))]) session.disconnect();
  }

  subscribers(): SubscriberInfo[] {
    return Array.from(this.#index.everybody(), (session) => session.describe());
  }

  /**
   * Sends an envelope without a topic frame. Subscriptions are then compared with the start of the
   * message itself.
   */
  #sendToAll(
    envelope: Uint8Array,
    index: TopicIndex<ZeromqSubscriberSession>,
    delivery: Delivery,
  ): void {
    const message = toEncodedMessage(encodeMessage([envelope]));
    const beginning = this.#beginningOf(envelope);
    for (const prefix of [beginning, ...index.shorterPrefixes(beginning)]) {
      for (const session of index.exact(prefix)) delivery.offerOnce(session, message);
    }
  }

  /**
   * Sends one message for each topic to the subscribers of the topic. In ZeroMQ, a subscriber of a
   * shorter topic, such as `''`, also matches all topics that begin with it. It receives only the
   * first of these messages, because all contain the same envelope. A minion would ignore
   * repetitions anyway, because it knows the jid.
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

  /** Returns the bytes of an envelope that subscriptions can match if it has no topic frame. */
  #beginningOf(envelope: Uint8Array): string {
    return latin1(envelope.subarray(0, this.#options.maxTopicBytes));
  }

  #sortedTopics(publication: OutgoingPublication): readonly string[] {
    const known = this.#sorted.get(publication);
    if (known !== undefined) return known;
    const sorted = [...this.#topicsFor(publication.minionIds)].sort();
    this.#sorted.set(publication, sorted);
    return sorted;
  }

  #topicsFor(minionIds: readonly string[] | null): readonly string[] {
    if (minionIds === null) return [BROADCAST_TOPIC];
    const topics = Array.from(new Set(minionIds), minionTopic);
    if (this.#options.orderMasters && topics.length > 0) topics.push(SYNDIC_TOPIC);
    return topics;
  }
}

/**
 * Counts the subscribers for which a publication was queued, and the subscribers that were skipped.
 */
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

/** Returns the first of the sorted texts that begins with `prefix`, or `undefined`. */
function firstWith(prefix: string, sorted: readonly string[]): string | undefined {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? '') < prefix) low = middle + 1;
    else high = middle;
  }
  const found = sorted[low];
  return found?.startsWith(prefix) ? found : undefined;
}

function topicMessage(topic: string, envelope: Uint8Array): EncodedMessage {
  return toEncodedMessage(encodeMessage([Buffer.from(topic, 'latin1'), envelope]));
}
