/** Orders that sites have not received yet, with the number of orders of each user. */

import { Budget } from '#runtime';
import { edgeLimits } from '../limits.ts';

/** Order that a site has not received yet. */
export interface WaitingOrder {
  /** Name of the user who issued the order. */
  readonly by: string;
  /** End of the validity, in milliseconds since 1970. */
  readonly validUntil: number;
}

/** Orders that sites have not received yet. */
export class WaitingOrders {
  readonly #sites = new Map<string, OrdersOfSite>();
  #size = 0;

  /** Number of orders. An order for two sites counts twice. */
  get size(): number {
    return this.#size;
  }

  /** Names of the sites for which orders wait. */
  get sites(): readonly string[] {
    return [...this.#sites.keys()];
  }

  /** Number of orders that a site has not received yet. */
  sizeFor(site: string): number {
    return this.#sites.get(site)?.orders.size ?? 0;
  }

  /** Returns the orders that wait for a site, by id, in the order in which they were added. */
  of(site: string): ReadonlyMap<string, WaitingOrder> {
    return this.#sites.get(site)?.orders ?? noOrders;
  }

  /** Adds an order. Has no effect if the same order already waits for the site. */
  add(site: string, id: string, order: WaitingOrder): void {
    const ofSite = this.#sites.get(site) ?? new OrdersOfSite();
    this.#sites.set(site, ofSite);
    if (ofSite.add(id, order)) this.#size += 1;
  }

  remove(site: string, id: string): void {
    const ofSite = this.#sites.get(site);
    if (ofSite?.remove(id) !== true) return;
    this.#size -= 1;
    if (ofSite.orders.size === 0) this.#sites.delete(site);
  }

  /**
   * Whether a user may add an order for a site. Orders whose validity has ended do not count.
   * @param now - present time, in milliseconds since 1970. It does not decrease
   */
  hasPlace(site: string, user: string, now: number): boolean {
    return (this.#sites.get(site) ?? new OrdersOfSite()).hasPlace(user, now);
  }
}

const noOrders: ReadonlyMap<string, WaitingOrder> = new Map();

/** Order that counts towards the limit of its site. */
interface CountedOrder extends WaitingOrder {
  readonly id: string;
}

class OrdersOfSite {
  readonly orders = new Map<string, WaitingOrder>();
  readonly #held = new Budget(edgeLimits.waitingOrders);
  /** Orders that count towards the limit, by the end of their validity. */
  readonly #counted: CountedOrder[] = [];

  /** Adds an order. Returns false if it is already there. */
  add(id: string, order: WaitingOrder): boolean {
    if (this.orders.has(id)) return false;
    this.orders.set(id, order);
    const { by, validUntil } = order;
    this.#counted.splice(this.#placeOf(validUntil), 0, { id, by, validUntil });
    this.#held.take(by);
    return true;
  }

  /** Removes an order. Returns false if it is not there. */
  remove(id: string): boolean {
    const order = this.orders.get(id);
    if (order === undefined) return false;
    this.orders.delete(id);
    for (let place = this.#placeOf(order.validUntil) - 1; place >= 0; place -= 1) {
      const counted = this.#counted[place];
      if (counted?.validUntil !== order.validUntil) break;
      if (counted.id !== id) continue;
      this.#counted.splice(place, 1);
      this.#held.release(order.by);
      break;
    }
    return true;
  }

  hasPlace(user: string, now: number): boolean {
    let ended = 0;
    for (const { by, validUntil } of this.#counted) {
      if (now < validUntil) break;
      this.#held.release(by);
      ended += 1;
    }
    this.#counted.splice(0, ended);
    return this.#held.hasPlace(user);
  }

  /** Returns the number of counted orders whose validity ends at or before this time. */
  #placeOf(validUntil: number): number {
    let low = 0;
    let high = this.#counted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#counted[middle]?.validUntil ?? Infinity) <= validUntil) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
