import { assertMayWait, type Limit, unlimitedWaiting } from './limits.ts';
import { LinkedList, type ListNode } from './linked-list.ts';

interface Waiting<Item> extends ListNode<Waiting<Item>> {
  readonly item: Item;
}

interface Owner<Item> extends ListNode<Owner<Item>> {
  readonly name: string;
  readonly items: LinkedList<Waiting<Item>>;
  count: number;
}

/**
 * A queue that serves its owners in turn, one item at a time. Its capacity is the property
 * `waiting` of its limit, by default unlimited. Each operation takes constant time.
 */
export class FairQueue<Item> {
  readonly #limit: Limit;
  readonly #maxWaiting: NonNullable<Limit['waiting']>;
  readonly #owners = new Map<string, Owner<Item>>();
  readonly #ring = new LinkedList<Owner<Item>>();
  #length = 0;

  constructor(limit: Limit) {
    this.#limit = limit;
    this.#maxWaiting = limit.waiting ?? unlimitedWaiting;
  }

  /** Number of waiting items. */
  get length(): number {
    return this.#length;
  }

  /**
   * Adds an item. Half of the queue's capacity is reserved for owners without a waiting item.
   * @throws LimitExceeded if the queue accepts no further item of this owner
   */
  push(name: string, item: Item): void {
    let owner = this.#owners.get(name);
    assertMayWait(this.#limit, this.#maxWaiting, owner?.count ?? 0, this.#length);
    if (owner === undefined) {
      owner = { name, items: new LinkedList(), count: 0, previous: undefined, next: undefined };
      this.#owners.set(name, owner);
      this.#ring.append(owner);
    }
    owner.items.append({ item, previous: undefined, next: undefined });
    owner.count += 1;
    this.#length += 1;
  }

  /**
   * Removes and returns the first item of the owner whose turn it is. Returns `undefined` if the
   * queue is empty.
   */
  shift(): Item | undefined {
    const owner = this.#ring.first;
    const first = owner?.items.first;
    if (owner === undefined || first === undefined) return undefined;
    owner.items.remove(first);
    owner.count -= 1;
    this.#length -= 1;
    this.#ring.remove(owner);
    if (owner.count > 0) this.#ring.append(owner);
    else this.#owners.delete(owner.name);
    return first.item;
  }
}
