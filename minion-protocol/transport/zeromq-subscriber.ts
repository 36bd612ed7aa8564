/** One peer of the publish socket: what it subscribed to and what waits for it. */
import type { StreamConnection } from './stream-connection.ts';
import { offer, type QueueBounds } from './subscriber-queue.ts';
import type { TopicIndex } from './topic-index.ts';
import type { Subscriber } from './transport.ts';
import type { EncodedMessage } from './write-queue.ts';
import type { ZeromqSession } from './zeromq-connection.ts';

/** What a subscription costs besides its bytes: entries in two sets and a map. */
const BYTES_PER_TOPIC = 128;

export interface SubscriberBounds extends QueueBounds {
  readonly maxTopics: number;
}

export class SubscriberSession implements ZeromqSession {
  readonly #connection: StreamConnection;
  readonly #index: TopicIndex<SubscriberSession>;
  readonly #bounds: SubscriberBounds;
  readonly #onGone: () => void;
  readonly #topics = new Set<string>();
  #topicBytes = 0;

  constructor(
    connection: StreamConnection,
    index: TopicIndex<SubscriberSession>,
    bounds: SubscriberBounds,
    onGone: () => void,
  ) {
    this.#connection = connection;
    this.#index = index;
    this.#bounds = bounds;
    this.#onGone = onGone;
  }

  get hasTopics(): boolean {
    return this.#topics.size > 0;
  }

  describe(): Subscriber {
    return {
      address: this.#connection.guarded.address,
      connectedAt: this.#connection.guarded.connectedAt,
      topics: [...this.#topics],
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
  }

  onWritten(): void {
    // Nothing waits outside the connection's queue.
  }

  onClosed(): void {
    for (const topic of this.#topics) this.#index.delete(topic, this);
    this.#topics.clear();
    this.#onGone();
  }

  finish(): void {
    this.#connection.endWhenWritten();
  }

  #subscribe(topic: string): void {
    if (this.#topics.has(topic)) return;
    if (this.#topics.size >= this.#bounds.maxTopics) {
      this.#connection.refuse('too-many-topics');
      return;
    }
    this.#topics.add(topic);
    this.#topicBytes += topic.length + BYTES_PER_TOPIC;
    this.#index.add(topic, this);
  }

  #cancel(topic: string): void {
    if (!this.#topics.delete(topic)) return;
    this.#topicBytes -= topic.length + BYTES_PER_TOPIC;
    this.#index.delete(topic, this);
  }
}
