/** Publications for subscribers that are expected, but not there yet. */
import type { QueueBounds } from './subscriber-queue.ts';
import type { OutgoingPublication } from './transport.ts';

/**
 * Holds publications for `holdMs` each, and sends them in their order to whoever subscribes in that
 * time. Bounded as the queue of one subscriber: the oldest go first.
 */
export class HeldPublications<Subscriber> {
  readonly #bounds: QueueBounds;
  readonly #send: (publication: OutgoingPublication, to: Subscriber) => void;
  readonly #held = new Set<OutgoingPublication>();
  /** Those who have not been sent yet what is held. */
  readonly #newcomers = new Set<Subscriber>();
  #bytes = 0;

  constructor(
    bounds: QueueBounds,
    send: (publication: OutgoingPublication, to: Subscriber) => void,
  ) {
    this.#bounds = bounds;
    this.#send = send;
  }

  /** Takes note of a new subscriber, until {@link serve} or {@link forget}. */
  expect(subscriber: Subscriber): void {
    if (this.#held.size > 0) this.#newcomers.add(subscriber);
  }

  /** A new subscriber is ready for what is held; what it was sent before, it is not sent again. */
  serve(subscriber: Subscriber): void {
    if (!this.#newcomers.delete(subscriber)) return;
    for (const publication of this.#held) this.#send(publication, subscriber);
  }

  /** A subscriber is gone. */
  forget(subscriber: Subscriber): void {
    this.#newcomers.delete(subscriber);
  }

  /** To be called before a publication is sent: newcomers get older ones first. */
  add(publication: OutgoingPublication): void {
    for (const newcomer of this.#newcomers) this.serve(newcomer);
    const { envelope, holdMs = 0 } = publication;
    if (holdMs === 0) return;
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
    if (this.#held.delete(publication)) this.#bytes -= publication.envelope.length;
  }
}
