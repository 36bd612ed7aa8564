/** Node of a {@link LinkedList}. A node is in at most one list. */
export interface ListNode<Node> {
  previous: Node | undefined;
  next: Node | undefined;
}

/**
 * A linked list. Its items are its nodes. Adding, removing and taking the first node take constant
 * time. In contrast, finding the first key of a large `Map` takes linear time after deletions.
 */
export class LinkedList<Node extends ListNode<Node>> {
  #first: Node | undefined;
  #last: Node | undefined;

  get first(): Node | undefined {
    return this.#first;
  }

  get last(): Node | undefined {
    return this.#last;
  }

  /** Appends a node, which must not be in a list. */
  append(node: Node): void {
    node.previous = this.#last;
    node.next = undefined;
    if (this.#last === undefined) this.#first = node;
    else this.#last.next = node;
    this.#last = node;
  }

  /** Removes a node of this list. */
  remove(node: Node): void {
    const { previous, next } = node;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    node.previous = undefined;
    node.next = undefined;
  }
}
