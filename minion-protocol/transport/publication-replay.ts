/** Stores recent publications for subscribers that connect slightly later. */

import type { SubscriberQueueLimits } from './subscriber-queue.ts';
import type { OutgoingPublication } from './transport.ts';

/**
 * Stores each publication for its `replayMs`. A subscriber that connects within this time receives
 * the stored publications in order. The buffer has the limits of the queue of one subscriber. At a
 * limit, the oldest publications are dropped.
 */
export class PublicationReplayBuffer<Subscriber> {
  readonly #bounds: SubscriberQueueLimits;
  readonly #send: (publication: OutgoingPublication, to: Subscriber) => void;
  readonly #held = new Set<OutgoingPublication>();
  /**
   * The stored publications as a list, which new subscribers share. `undefined` after the stored
   * publications have changed. The next new subscriber then gets a new list.
   */
  #list: readonly OutgoingPublication[] | undefined;
  /** New subscribers, with the stored publications that were not sent to them yet. */
  readonly #newcomers = new Map<Subscriber, readonly OutgoingPublication[]>();
  #bytes = 0;

  constructor(
    bounds: SubscriberQueueLimits,
    send: (publication: OutgoingPublication, to: Subscriber) => void,
  ) {
    this.#bounds = bounds;
    this.#send = send;
  }

  /**
   * Records that a new subscriber must still receive the publications that are stored now.
   * {@link replay} sends them, and {@link removeSubscriber} deletes the record.
   */
  addSubscriber(subscriber: Subscriber): void {
    if (this.#held.size === 0) return;
    this.#list ??= [...this.#held];
    this.#newcomers.set(subscriber, this.#list);
  }

  /**
   * Sends a new subscriber the publications that were stored when it connected. Only the first call
   * has an effect.
   */
  replay(subscriber: Subscriber): void {
    const held = this.#newcomers.get(subscriber) ?? [];
    this.#newcomers.delete(subscriber);
    for (const publication of held) this.#send(publication, subscriber);
  }

  /** Calls {@link replay} after `afterMs`, or before the next publication. */
  replayLater(subscriber: Subscriber, afterMs: number): void {
    if (!this.#newcomers.has(subscriber)) return;
    setTimeout(() => this.replay(subscriber), afterMs).unref();
  }

  /** Removes a subscriber that has disconnected. */
  removeSubscriber(subscriber: Subscriber): void {
    this.#newcomers.delete(subscriber);
  }

  /**
   * Stores a publication. Call this before the publication is sent, because new subscribers must
   * receive older publications first.
   */
  add(publication: OutgoingPublication): void {
    for (const newcomer of this.#newcomers.keys()) this.replay(newcomer);
    const { envelope, replayMs: holdMs = 0 } = publication;
    if (holdMs === 0) return;
    this.#list = undefined;
    this.#held.add(publication);
    this.#bytes += envelope.length;
    setTimeout(() => this.#release(publication), holdMs).unref();
    const { maxQueuedMessages, maxQueuedBytes } = this.#bounds;
    for (const oldest of this.#held) {
      if (this.#held.size <= maxQueuedMessages && this.#bytes <= maxQueuedBytes) return;
      this.#release(oldest);
    }
  }

  #release(publication: OutgoingPublication): void {
    if (!this.#held.delete(publication)) return;
    this.#list = undefined;
    this.#bytes -= publication.envelope.length;
  }
}
