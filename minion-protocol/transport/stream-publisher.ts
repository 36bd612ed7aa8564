/** Publications over TCP and WebSocket: to connections, of which some are known to be whose. */

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
   * Publications that one subscriber may miss in a row before it is given up. Default 10,000 over
   * TCP, and no bound over WebSocket, whose minions never come back [WIRE 4.2].
   */
  readonly maxMissed: number;
  /**
   * Salt's `order_masters`: a subscriber may be a master of others, so everything goes to all.
   * Default false.
   */
  readonly orderMasters: boolean;
}

export const DEFAULT_STREAM_PUBLISHER_OPTIONS: StreamPublisherOptions = {
  ...DEFAULT_SUBSCRIBER_QUEUE_LIMITS,
  maxMissed: 10_000,
  orderMasters: false,
};

/** What differs between transports. */
export interface PublicationForm {
  readonly encode: (envelope: Uint8Array) => readonly Uint8Array[];
  /** Largest message that minions read, bytes; larger ones are not sent. */
  readonly maxBytes: number;
}

/** Sends each publication to whom it may concern, each through a queue of its own. */
export class StreamPublisher {
  readonly options: StreamPublisherOptions;
  readonly #form: PublicationForm;
  readonly #links = new Set<SubscriberLink>();
  readonly #held: PublicationReplayBuffer<SubscriberLink>;

  constructor(options: StreamPublisherOptions, form: PublicationForm) {
    this.options = options;
    this.#form = form;
    this.#held = new PublicationReplayBuffer(options, (publication, to) =>
      this.#send(publication, [to]),
    );
  }

  /** Counts a connection among the subscribers. */
  add(link: SubscriberLink): void {
    this.#links.add(link);
    this.#held.addSubscriber(link);
  }

  remove(link: SubscriberLink): void {
    this.#links.delete(link);
    this.#held.removeSubscriber(link);
  }

  /** Sends what is held for a new subscriber, after so many milliseconds. */
  replay(link: SubscriberLink, afterMs: number): void {
    this.#held.replayLater(link, afterMs);
  }

  publish(publication: OutgoingPublication): PublishOutcome {
    this.#held.add(publication);
    return this.#send(publication, this.#links);
  }

  #send(
    { envelope, minionIds }: OutgoingPublication,
    links: Iterable<SubscriberLink>,
  ): PublishOutcome {
    const message = toEncodedMessage(this.#form.encode(envelope));
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

  subscribers(): SubscriberInfo[] {
    return Array.from(this.#links, (link) => link.describe());
  }

  /**
   * Who has not said who it is gets everything: an announcement may be lost, or come in a moment in
   * which the key changes, and the stream is the same for all [THREATS N-15].
   */
  #concerns({ minionIds }: SubscriberLink, addressees: ReadonlySet<string> | undefined): boolean {
    if (addressees === undefined) return true;
    if (addressees.size === 0) return false;
    if (this.options.orderMasters || minionIds.size === 0) return true;
    for (const id of minionIds) if (addressees.has(id)) return true;
    return false;
  }
}

/** One subscriber, once its publisher has added it. */
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

  /** Queues a message; false if the queue is full and this subscriber goes without. */
  offer(message: EncodedMessage): boolean {
    if (tryQueueMessage(this.#connection, message, this.#publisher.options)) {
      this.#missed = 0;
      return true;
    }
    this.#missed += 1;
    if (this.#missed > this.#publisher.options.maxMissed) this.#connection.refuse('far-behind');
    return false;
  }

  /** It takes what was held for it after so many milliseconds. Default: at once. */
  ready(afterMs = 0): void {
    this.#publisher.replay(this, afterMs);
  }

  onClosed(): void {
    this.#publisher.remove(this);
  }
}
