import { MultiMap } from '#runtime';

/** Subscribers by topic. In ZeroMQ, a subscription matches every topic that begins with it. */
export class TopicIndex<Subscriber extends object> {
  readonly #subscribers = new MultiMap<string, Subscriber>();
  readonly #topics = new PrefixTree();

  add(topic: string, subscriber: Subscriber): void {
    if (this.#subscribers.add(topic, subscriber)) this.#topics.add(topic);
  }

  delete(topic: string, subscriber: Subscriber): void {
    if (this.#subscribers.delete(topic, subscriber)) this.#topics.delete(topic);
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
    return this.#topics.shorterPrefixes(text);
  }
}

/** Node of a {@link PrefixTree}. Its text is the labels from the root to the node. */
interface Node {
  label: string;
  isTopic: boolean;
  /** Child nodes by the first character of their labels. Only nodes with children have a map. */
  children: Map<string, Node> | undefined;
}

/**
 * Radix tree of topics. A look-up visits only nodes whose texts are prefixes of the searched text.
 * Its cost therefore does not depend on topics that other peers have added.
 */
class PrefixTree {
  readonly #root = createNode('', false);

  add(topic: string): void {
    let node = this.#root;
    let at = 0;
    while (at < topic.length) {
      const child = childOf(node, topic, at);
      if (child === undefined) {
        const leaf = createNode(topic.slice(at), true);
        setChild(node, leaf);
        return;
      }
      const common = commonLength(child.label, topic, at);
      if (common < child.label.length) split(child, common);
      at += common;
      node = child;
    }
    node.isTopic = true;
  }

  delete(topic: string): void {
    const path = [this.#root];
    let at = 0;
    for (let node = this.#root; at < topic.length; ) {
      const child = childOf(node, topic, at);
      if (child === undefined || !topic.startsWith(child.label, at)) return;
      at += child.label.length;
      path.push(child);
      node = child;
    }
    const node = path.at(-1);
    if (node === undefined) return;
    node.isTopic = false;
    const parent = path.at(-2);
    if (parent === undefined) return;
    if (node.children === undefined) removeChild(parent, node);
    else mergeOnlyChild(node);
    if (parent !== this.#root && !parent.isTopic) mergeOnlyChild(parent);
  }

  shorterPrefixes(text: string): string[] {
    const prefixes: string[] = [];
    let at = 0;
    for (let node: Node | undefined = this.#root; node !== undefined && at < text.length; ) {
      if (node.isTopic) prefixes.push(text.slice(0, at));
      node = childOf(node, text, at);
      if (node === undefined || !text.startsWith(node.label, at)) return prefixes;
      at += node.label.length;
    }
    return prefixes;
  }
}

function createNode(label: string, isTopic: boolean): Node {
  return { label, isTopic, children: undefined };
}

function childOf({ children }: Node, text: string, at: number): Node | undefined {
  return children?.get(text.charAt(at));
}

function setChild(node: Node, child: Node): void {
  node.children ??= new Map();
  node.children.set(child.label.charAt(0), child);
}

function removeChild(node: Node, { label }: Node): void {
  node.children?.delete(label.charAt(0));
  if (node.children?.size === 0) node.children = undefined;
}

/** Moves the rest of a node's label, after `length` characters, to a new child. */
function split(node: Node, length: number): void {
  const rest: Node = { ...node, label: node.label.slice(length) };
  node.label = node.label.slice(0, length);
  node.isTopic = false;
  node.children = undefined;
  setChild(node, rest);
}

/** Replaces a node without a topic by its child, if the node has only one child. */
function mergeOnlyChild(node: Node): void {
  if (node.children?.size !== 1) return;
  for (const child of node.children.values()) {
    node.label += child.label;
    node.isTopic = child.isTopic;
    node.children = child.children;
  }
}

/**
 * Returns how many characters at the start of `label` are equal to the characters of `text` from
 * this position on.
 */
function commonLength(label: string, text: string, at: number): number {
  let length = 0;
  while (length < label.length && label[length] === text[at + length]) length += 1;
  return length;
}
