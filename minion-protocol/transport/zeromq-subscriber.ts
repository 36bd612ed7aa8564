/** One peer of the publish socket: what it subscribed to and what waits for it. */
import type { StreamConnection } from './stream-connection.ts';
import { offer, type QueueBounds } from './subscriber-queue.ts';
import type { TopicIndex } from './topic-index.ts';
import type { Subscriber } from './transport.ts';
import type { EncodedMessage } from './write-queue.ts';
import type { ZeromqSession } from './zeromq-connection.ts';

/** What a subscription costs besides its bytes: entries in a list, a set and a map. */
const BYTES_PER_TOPIC = 128;

const noTopics: readonly string[] = [];

export interface SubscriberBounds extends QueueBounds {
  readonly maxTopics: number;
}

export class SubscriberSession implements ZeromqSession {
  readonly #connection: StreamConnection;
  readonly #index: TopicIndex<SubscriberSession>;
  readonly #bounds: SubscriberBounds;
  readonly #onFirstTopic: (session: SubscriberSession) => void;
  #hasNamedTopics = false;
  /** Nearly always one: a list of that takes a third of what a set does. */
  #topics: readonly string[] = noTopics;
  #topicBytes = 0;

  constructor(
    connection: StreamConnection,
    index: TopicIndex<SubscriberSession>,
    bounds: SubscriberBounds,
    onFirstTopic: (session: SubscriberSession) => void,
  ) {
    this.#connection = connection;
    this.#index = index;
    this.#bounds = bounds;
    this.#onFirstTopic = onFirstTopic;
  }

  get topics(): readonly string[] {
    return this.#topics;
  }

  describe(): Subscriber {
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
    return offer(this.#connection, message, this.#bounds);
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
    this.#connection.keep(this.#topicBytes);
    if (this.#hasNamedTopics) return;
    this.#hasNamedTopics = true;
    this.#onFirstTopic(this);
  }

  onWritten(): void {
    // Nothing waits outside the connection's queue.
  }

  onClosed(): void {
    for (const topic of this.#topics) this.#index.delete(topic, this);
    this.#topics = noTopics;
  }

  finish(): void {
    this.#connection.endWhenWritten();
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
