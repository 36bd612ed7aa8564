/**
 * Sends publications over TCP and WebSocket. Unless `orderMasters` is set, a connection of a known
 * minion receives only publications for this minion, and publications for all minions.
 */

import { PublicationReplayBuffer } from './publication-replay.ts';
import type { StreamConnection, StreamSession } from './stream-connection.ts';
import {
  DEFAULT_SUBSCRIBER_QUEUE_LIMITS,
  type SubscriberQueueLimits,
  tryQueueMessage,
} from './subscriber-queue.ts';
import type { OutgoingPublication, PublishOutcome, SubscriberInfo } from './transport.ts';
import { type EncodedMessage, toEncodedMessage } from './write-queue.ts';

export interface StreamPublisherOptions extends SubscriberQueueLimits {
  /**
   * Number of consecutive publications that a subscriber may miss before it is disconnected.
   * Default: 10,000 over TCP. Unlimited over WebSocket, because its minions do not reconnect [WIRE
   * 4.2].
   */
  readonly maxMissed: number;
  /**
   * `order_masters`: whether every subscriber receives all publications, because it may be a syndic
   * (a master of other minions). Default: `false`.
   */
  readonly orderMasters: boolean;
}

export const DEFAULT_STREAM_PUBLISHER_OPTIONS: StreamPublisherOptions = {
  ...DEFAULT_SUBSCRIBER_QUEUE_LIMITS,
  maxMissed: 10_000,
  orderMasters: false,
};

/** Encoding and size limit of publications. Each transport has its own. */
export interface PublicationForm {
  readonly encode: (envelope: Uint8Array) => readonly Uint8Array[];
  /** Maximum message size that minions accept, in bytes. Larger publications are not sent. */
  readonly maxBytes: number;
}

/**
 * Sends publications to subscribers, each through its own queue. A subscriber that has announced
 * its minion ids does not receive publications for other minions, unless `orderMasters` is set.
 */
export class StreamPublisher {
  readonly options: StreamPublisherOptions;
  readonly #form: PublicationForm;
  readonly #links = new Set<SubscriberLink>();
  readonly #held: PublicationReplayBuffer<SubscriberLink>;
  /**
   * Encoded form of publications. All subscribers share it, including those that receive stored
   * publications.
   */
  readonly #encoded = new WeakMap<OutgoingPublication, EncodedMessage>();

  constructor(options: StreamPublisherOptions, form: PublicationForm) {
    this.options = options;
    this.#form = form;
    this.#held = new PublicationReplayBuffer(options, (publication, to) =>
      this.#send(publication, [to]),
    );
  }

  /** Adds a connection to the subscribers. */
  add(link: SubscriberLink): void {
    this.#links.add(link);
    this.#held.addSubscriber(link);
  }

  remove(link: SubscriberLink): void {
    this.#links.delete(link);
    this.#held.removeSubscriber(link);
  }

  /** Sends the stored publications to a new subscriber after `afterMs` milliseconds. */
  replay(link: SubscriberLink, afterMs: number): void {
    this.#held.replayLater(link, afterMs);
  }

  publish(publication: OutgoingPublication): PublishOutcome {
    this.#held.add(publication);
    return this.#send(publication, this.#links);
  }

  #send(publication: OutgoingPublication, links: Iterable<SubscriberLink>): PublishOutcome {
    const { minionIds } = publication;
    const message = this.#encode(publication);
    const addressees = minionIds === null ? undefined : new Set(minionIds);
    const isTooLarge = message.bytes > this.#form.maxBytes;
    let queued = 0;
    let skipped = 0;
    for (const link of links) {
      if (!this.#concerns(link, addressees)) continue;
      if (!isTooLarge && link.offer(message)) queued += 1;
      else skipped += 1;
    }
    return { queued, skipped };
  }

  #encode(publication: OutgoingPublication): EncodedMessage {
    const known = this.#encoded.get(publication);
    if (known !== undefined) return known;
    const message = toEncodedMessage(this.#form.encode(publication.envelope));
    this.#encoded.set(publication, message);
    return message;
  }

  subscribers(): SubscriberInfo[] {
    return Array.from(this.#links, (link) => link.describe());
  }

  /**
   * Whether a publication is sent to a subscriber. A subscriber whose id is unknown receives every
   * publication. Its announcement may have been lost, or rejected while the publish key was
   * replaced. This reveals nothing, because all minions may read every publication [THREATS N-15].
   */
  #concerns({ minionIds }: SubscriberLink, addressees: ReadonlySet<string> | undefined): boolean {
    if (addressees === undefined) return true;
    if (addressees.size === 0) return false;
    if (this.options.orderMasters || minionIds.size === 0) return true;
    for (const id of minionIds) if (addressees.has(id)) return true;
    return false;
  }
}

/** One subscriber of a publisher. */
export class SubscriberLink implements StreamSession {
  readonly #connection: StreamConnection;
  readonly #publisher: StreamPublisher;
  #missed = 0;

  constructor(connection: StreamConnection, publisher: StreamPublisher) {
    this.#connection = connection;
    this.#publisher = publisher;
  }

  get minionIds(): ReadonlySet<string> {
    return this.#connection.guarded.minionIds;
  }

  describe(): SubscriberInfo {
    const { address, connectedAt, minionIds } = this.#connection.guarded;
    return {
      address,
      connectedAt,
      topics: [''],
      minionIds: [...minionIds],
      queuedBytes: this.#connection.queue.bytes,
    };
  }

  /**
   * Queues a message. Returns `false` if the queue is full. The subscriber then does not receive
   * the message.
   */
  offer(message: EncodedMessage): boolean {
    if (tryQueueMessage(this.#connection, message, this.#publisher.options)) {
      this.#missed = 0;
      return true;
    }
    this.#missed += 1;
    if (this.#missed > this.#publisher.options.maxMissed)
      this.#connection.guarded.refuse('far-behind');
    return false;
  }

  /** Sends the stored publications after `afterMs` milliseconds. Default: at once. */
  ready(afterMs = 0): void {
    this.#publisher.replay(this, afterMs);
  }

  onClosed(): void {
    this.#publisher.remove(this);
  }
}
