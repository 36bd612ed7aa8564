import { MultiMap } from '#runtime';

/** Subscribers by topic. In ZeroMQ, a subscription matches every topic that begins with it. */
export class TopicIndex<Subscriber extends object> {
  readonly #subscribers = new MultiMap<string, Subscriber>();
  /** Number of topics of each length. A look-up tries only prefixes of these lengths. */
  readonly #lengths = new Map<number, number>();

  add(topic: string, subscriber: Subscriber): void {
    if (!this.#subscribers.add(topic, subscriber)) return;
    this.#lengths.set(topic.length, (this.#lengths.get(topic.length) ?? 0) + 1);
  }

  delete(topic: string, subscriber: Subscriber): void {
    if (!this.#subscribers.delete(topic, subscriber)) return;
    const left = (this.#lengths.get(topic.length) ?? 1) - 1;
    if (left === 0) this.#lengths.delete(topic.length);
    else this.#lengths.set(topic.length, left);
  }

  has(topic: string, subscriber: Subscriber): boolean {
    return this.#subscribers.includes(topic, subscriber);
  }

  /** Returns the subscribers of exactly this topic. */
  exact(topic: string): Iterable<Subscriber> {
    return this.#subscribers.get(topic);
  }

  /** Returns all subscribers. */
  everybody(): ReadonlySet<Subscriber> {
    return new Set(this.#subscribers.all());
  }

  /** Returns the subscribed topics that are proper prefixes of `text`. */
  shorterPrefixes(text: string): string[] {
    const prefixes: string[] = [];
    for (const length of this.#lengths.keys()) {
      const prefix = text.slice(0, length);
      if (length < text.length && this.#subscribers.has(prefix)) prefixes.push(prefix);
    }
    return prefixes;
  }
}
