import { LinkedList, type ListNode } from '#runtime';

/** Address in an {@link AddressRanking}. */
export interface RankedAddress<Address> extends ListNode<Address> {
  /** Number of idle connections. Only the ranking changes it. */
  idle: number;
}

/**
 * Addresses, grouped by their numbers of idle connections. Finding the address with the most takes
 * constant time, and so does a change by one connection.
 */
export class AddressRanking<Address extends RankedAddress<Address>> {
  /** The list at index `n` contains the addresses that have `n` idle connections. */
  readonly #byCount: LinkedList<Address>[] = [];
  /** Number of idle connections of the address with the most. */
  #most = 0;

  /**
   * Address with the most idle connections, or `undefined` if no address has any. Of several such
   * addresses, the one that has had this number longest.
   */
  get first(): Address | undefined {
    return this.#byCount[this.#most]?.first;
  }

  /** Sets the number of idle connections of an address. With 0, removes the address. */
  set(address: Address, idle: number): void {
    if (address.idle > 0) this.#byCount[address.idle]?.remove(address);
    address.idle = idle;
    if (idle > 0) {
      const others = this.#byCount[idle] ?? new LinkedList();
      this.#byCount[idle] = others;
      others.append(address);
    }
    this.#most = Math.max(this.#most, idle);
    while (this.#most > 0 && this.first === undefined) this.#most -= 1;
  }
}
