/** Who subscribed to what: ZeroMQ's rule is that a topic matches everything that begins with it. */
export class TopicIndex<Subscriber> {
  readonly #subscribers = new Map<string, Set<Subscriber>>();
  /** How many topics there are of each length: only these prefixes are worth looking up. */
  readonly #lengths = new Map<number, number>();

  add(topic: string, subscriber: Subscriber): void {
    const same = this.#subscribers.get(topic);
    if (same !== undefined) {
      same.add(subscriber);
      return;
    }
    this.#subscribers.set(topic, new Set([subscriber]));
    this.#lengths.set(topic.length, (this.#lengths.get(topic.length) ?? 0) + 1);
  }

  delete(topic: string, subscriber: Subscriber): void {
    const same = this.#subscribers.get(topic);
    if (same?.delete(subscriber) !== true || same.size > 0) return;
    this.#subscribers.delete(topic);
    const left = (this.#lengths.get(topic.length) ?? 1) - 1;
    if (left === 0) this.#lengths.delete(topic.length);
    else this.#lengths.set(topic.length, left);
  }

  /** Those who subscribed to exactly this topic. */
  exact(topic: string): Iterable<Subscriber> {
    return this.#subscribers.get(topic) ?? [];
  }

  /** Those who subscribed to anything. */
  everybody(): ReadonlySet<Subscriber> {
    const all = new Set<Subscriber>();
    for (const same of this.#subscribers.values()) for (const one of same) all.add(one);
    return all;
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
