/** Publications for subscribers that are expected, but not there yet. */
import type { QueueBounds } from './subscriber-queue.ts';
import type { OutgoingPublication } from './transport.ts';

/**
 * Holds publications for `holdMs` each, and sends them in their order to whoever subscribes in that
 * time. Bounded as the queue of one subscriber: the oldest go first.
 */
export class HeldPublications<Subscriber> {
  readonly #bounds: QueueBounds;
  readonly #send: (publication: OutgoingPublication, to: ReadonlySet<Subscriber>) => void;
  readonly #held = new Set<OutgoingPublication>();
  /** Those who have not been sent yet what is held. */
  readonly #newcomers = new Set<Subscriber>();
  #bytes = 0;

  constructor(
    bounds: QueueBounds,
    send: (publication: OutgoingPublication, to: ReadonlySet<Subscriber>) => void,
  ) {
    this.#bounds = bounds;
    this.#send = send;
  }

  /**
   * Takes note of a new subscriber. It is sent what is held after this chunk of its bytes, because
   * a ZeroMQ peer names all its topics at once when it connects.
   */
  welcome(subscriber: Subscriber): void {
    if (this.#held.size === 0) return;
    this.#newcomers.add(subscriber);
    queueMicrotask(() => this.#serveNewcomers());
  }

  /** A subscriber is gone. */
  forget(subscriber: Subscriber): void {
    this.#newcomers.delete(subscriber);
  }

  /** To be called before a publication is sent: newcomers get older ones first. */
  add(publication: OutgoingPublication): void {
    this.#serveNewcomers();
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

  #serveNewcomers(): void {
    if (this.#newcomers.size === 0) return;
    const newcomers = new Set(this.#newcomers);
    this.#newcomers.clear();
    for (const publication of this.#held) this.#send(publication, newcomers);
  }

  #release(publication: OutgoingPublication): void {
    if (this.#held.delete(publication)) this.#bytes -= publication.envelope.length;
  }
}
