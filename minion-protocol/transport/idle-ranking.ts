import { LinkedList, type ListNode } from '#runtime';

/** Entry of an {@link IdleRanking}: an address, or a user of an address. */
export interface RankedOwner<Owner> extends ListNode<Owner> {
  /** Number of idle connections. Only the ranking changes it. */
  idle: number;
}

/**
 * Owners of connections, grouped by their numbers of idle connections. Finding the owner with the
 * most takes constant time, and so does a change by one connection.
 */
export class IdleRanking<Owner extends RankedOwner<Owner>> {
  /**
   * The list at index `n` contains the owners that have `n` idle connections. The last list is never
   * empty.
   */
  readonly #byCount: LinkedList<Owner>[] = [];

  /**
   * Owner with the most idle connections, or `undefined` if no owner has any. Of several such
   * owners, the one that has had this number longest.
   */
  get first(): Owner | undefined {
    return this.#byCount.at(-1)?.first;
  }

  /** Sets the number of idle connections of an owner. With 0, removes the owner. */
  set(owner: Owner, idle: number): void {
    if (owner.idle > 0) this.#byCount[owner.idle]?.remove(owner);
    owner.idle = idle;
    if (idle > 0) {
      const others = this.#byCount[idle] ?? new LinkedList();
      this.#byCount[idle] = others;
      others.append(owner);
    }
    while (this.#byCount.length > 0 && this.first === undefined) this.#byCount.pop();
  }
}
