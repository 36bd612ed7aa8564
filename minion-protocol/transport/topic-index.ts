import { MultiMap } from '#runtime';

/** Who subscribed to what: ZeroMQ's rule is that a topic matches everything that begins with it. */
export class TopicIndex<Subscriber extends object> {
  readonly #subscribers = new MultiMap<string, Subscriber>();
  /** How many topics there are of each length: only these prefixes are worth looking up. */
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

  /** Those who subscribed to exactly this topic. */
  exact(topic: string): Iterable<Subscriber> {
    return this.#subscribers.get(topic);
  }

  /** Those who subscribed to anything. */
  everybody(): ReadonlySet<Subscriber> {
    return new Set(this.#subscribers.all());
  }

  /** The subscribed topics that are a beginning of `text` and shorter than it. */
  shorterPrefixes(text: string): string[] {
    const prefixes: string[] = [];
    for (const length of this.#lengths.keys()) {
      const prefix = text.slice(0, length);
      if (length < text.length && this.#subscribers.has(prefix)) prefixes.push(prefix);
    }
    return prefixes;
  }
}
