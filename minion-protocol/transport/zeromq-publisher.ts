/** The publish socket: what PUB does for SUB and XSUB peers [WIRE 4.1]. */
import { Buffer } from 'node:buffer';
import { encodeMessage } from '../zmtp.ts';
import { latin1 } from '../zmtp-commands.ts';
import { HeldPublications } from './held-publications.ts';
import type { StreamConnection } from './stream-connection.ts';
import { DEFAULT_QUEUE_BOUNDS, type QueueBounds } from './subscriber-queue.ts';
import { TopicIndex } from './topic-index.ts';
import { BROADCAST_TOPIC, minionTopic, SYNDIC_TOPIC } from './topics.ts';
import type { OutgoingPublication, PublishOutcome, Subscriber } from './transport.ts';
import { type EncodedMessage, encoded } from './write-queue.ts';
import { SubscriberSession } from './zeromq-subscriber.ts';

export interface PublisherOptions extends QueueBounds {
  /** Salt's `zmq_filtering`: a topic frame before each envelope. Default false. */
  readonly filtering: boolean;
  /** Salt's `order_masters`: publications to ids go to the topic `syndic` too. Default false. */
  readonly orderMasters: boolean;
  /** Topics of one subscriber. Default 1000. */
  readonly maxTopics: number;
  /** Bytes of one topic. Default 256. */
  readonly maxTopicBytes: number;
}

export const DEFAULT_PUBLISHER_OPTIONS: PublisherOptions = {
  filtering: false,
  orderMasters: false,
  ...DEFAULT_QUEUE_BOUNDS,
  // protection: topics-without-end
  maxTopics: 1000,
  maxTopicBytes: 256,
};

/** Sends publications to those whose topics match, each through a queue of its own. */
export class Publisher {
  readonly #options: PublisherOptions;
  /** Those who listen. */
  readonly #index = new TopicIndex<SubscriberSession>();
  readonly #held: HeldPublications<SubscriberSession>;

  constructor(options: PublisherOptions) {
    this.#options = options;
    this.#held = new HeldPublications(options, (publication, to) => this.#sendTo(publication, to));
  }

  openSession(connection: StreamConnection): SubscriberSession {
    return new SubscriberSession(connection, this.#index, this.#options, (session) =>
      this.#welcome(session),
    );
  }

  publish(publication: OutgoingPublication): PublishOutcome {
    this.#held.add(publication);
    return this.#send(publication, this.#index);
  }

  /** It is ready after this chunk: a peer names all its topics at once when it connects. */
  #welcome(session: SubscriberSession): void {
    this.#held.expect(session);
    queueMicrotask(() => this.#held.serve(session));
  }

  #sendTo(publication: OutgoingPublication, session: SubscriberSession): void {
    const index = new TopicIndex<SubscriberSession>();
    for (const topic of session.topics) index.add(topic, session);
    this.#send(publication, index);
  }

  #send(publication: OutgoingPublication, index: TopicIndex<SubscriberSession>): PublishOutcome {
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

  subscribers(): Subscriber[] {
    return Array.from(this.#index.everybody(), (session) => session.describe());
  }

  /** Without topics the message itself is what subscriptions match. */
  #sendToAll(envelope: Uint8Array, index: TopicIndex<SubscriberSession>, delivery: Delivery): void {
    const message = encoded(encodeMessage([envelope]));
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
    index: TopicIndex<SubscriberSession>,
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
  readonly reached = new Set<SubscriberSession>();
  readonly skipped = new Set<SubscriberSession>();

  offer(session: SubscriberSession, message: EncodedMessage): void {
    if (session.offer(message)) this.reached.add(session);
    else this.skipped.add(session);
  }

  offerOnce(session: SubscriberSession, message: EncodedMessage): void {
    if (!this.reached.has(session)) this.offer(session, message);
  }
}

function topicMessage(topic: string, envelope: Uint8Array): EncodedMessage {
  return encoded(encodeMessage([Buffer.from(topic, 'latin1'), envelope]));
}
