/** Publications for subscribers that are expected and have not connected. */

import type { SubscriberQueueLimits } from './subscriber-queue.ts';
import type { OutgoingPublication } from './transport.ts';

/**
 * Holds publications for `holdMs` each, and sends them in their order to whoever subscribes in that
 * time. Bounded as the queue of one subscriber: the oldest go first.
 */
export class PublicationReplayBuffer<Subscriber> {
  readonly #bounds: SubscriberQueueLimits;
  readonly #send: (publication: OutgoingPublication, to: Subscriber) => void;
  readonly #held = new Set<OutgoingPublication>();
  /** The same as a list, which newcomers share. */
  #list: readonly OutgoingPublication[] | undefined;
  /** Those who have not been sent yet what was held when they came. */
  readonly #newcomers = new Map<Subscriber, readonly OutgoingPublication[]>();
  #bytes = 0;

  constructor(
    bounds: SubscriberQueueLimits,
    send: (publication: OutgoingPublication, to: Subscriber) => void,
  ) {
    this.#bounds = bounds;
    this.#send = send;
  }

  /** Takes note of a new subscriber, until {@link replay} or {@link removeSubscriber}. */
  addSubscriber(subscriber: Subscriber): void {
    if (this.#held.size === 0) return;
    this.#list ??= [...this.#held];
    this.#newcomers.set(subscriber, this.#list);
  }

  /** Sends a new subscriber what was held when it came, once. */
  replay(subscriber: Subscriber): void {
    const held = this.#newcomers.get(subscriber) ?? [];
    this.#newcomers.delete(subscriber);
    for (const publication of held) this.#send(publication, subscriber);
  }

  /** The same after a while, or before the next publication. */
  replayLater(subscriber: Subscriber, afterMs: number): void {
    if (!this.#newcomers.has(subscriber)) return;
    setTimeout(() => this.replay(subscriber), afterMs).unref();
  }

  /** A subscriber is gone. */
  removeSubscriber(subscriber: Subscriber): void {
    this.#newcomers.delete(subscriber);
  }

  /** To be called before a publication is sent: newcomers get older ones first. */
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
