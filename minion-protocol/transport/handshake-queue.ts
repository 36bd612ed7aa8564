import { type Limit, LinkedList, type ListNode } from '#runtime';

/**
 * Time in progress after which a handshake ends if its address is at its limit and others of the
 * address wait, in milliseconds.
 */
const fullAddressMs = 10_000;
/**
 * Time in progress after which a handshake of an address with the most of them ends if the limit of
 * all addresses is reached and another handshake waits, in milliseconds.
 */
const fullQueueMs = 1000;

/** Connection that a {@link Handshake} belongs to. */
export interface HandshakeConnection {
  /** Starts the TLS handshake. */
  start(): void;
  /** Ends the connection, so that another handshake can start. */
  refuse(reason: 'too-many-handshakes' | 'too-many-from-address'): void;
}

/** Addresses with the same number of handshakes in progress. */
interface AddressGroup {
  /** Addresses with waiting handshakes, in the order of their turns. */
  readonly waiting: LinkedList<Address>;
  /** Addresses without waiting handshakes. */
  readonly others: LinkedList<Address>;
}

interface Address extends ListNode<Address> {
  readonly name: string;
  /** Waiting handshakes, oldest first. */
  readonly waiting: LinkedList<Handshake>;
  /** Handshakes in progress, in the order of their starts. */
  readonly started: LinkedList<Handshake>;
  /** Number of handshakes in progress. */
  count: number;
  /** List of an {@link AddressGroup} that contains this address. */
  list: LinkedList<Address> | undefined;
}

/** TLS handshake of one connection. */
export class Handshake implements ListNode<Handshake> {
  readonly #queue: HandshakeQueue;
  readonly address: string;
  readonly connection: HandshakeConnection;
  previous: Handshake | undefined;
  next: Handshake | undefined;
  state: 'waiting' | 'started' | 'ended' = 'waiting';
  /** Time of the start, in milliseconds on the clock of the queue. */
  startedAt = 0;

  /**
   * @param address - address of the peer. All handshakes with the same address share the limits for
   * one address
   */
  constructor(queue: HandshakeQueue, address: string, connection: HandshakeConnection) {
    this.#queue = queue;
    this.address = address;
    this.connection = connection;
  }

  /** Starts the handshake, now or when the limits permit it. Must be called once. */
  enter(): void {
    this.#queue.enter(this);
  }

  /** Removes the handshake, because it or its connection has ended. May be called twice. */
  leave(): void {
    this.#queue.leave(this);
  }
}

/**
 * Limits the TLS handshakes in progress, per address and in total. A handshake costs a signature on
 * the main thread, and a peer can request it with a few bytes. Each operation takes constant time.
 *
 * Further handshakes wait. The address with the fewest handshakes in progress is served first.
 * Addresses with the same number take turns. The newest handshake of an address is served first,
 * because the peers of older ones may have given up.
 *
 * Only a few handshakes start in one turn of the event loop. A turn with hundreds of signatures
 * could take longer than {@link fullQueueMs}, so that handshakes would end although their peers have
 * already answered.
 *
 * A peer that does not finish its handshake does not keep others waiting. See {@link fullAddressMs}
 * for handshakes of the same address. If the total is reached, the oldest handshake of the address
 * with the most in progress ends if that address has at least two more than the waiting one, or
 * after {@link fullQueueMs}.
 */
export class HandshakeQueue {
  readonly #perAddress: number;
  readonly #total: number;
  readonly #perTurn: number;
  readonly #now: () => number;
  readonly #addresses = new Map<string, Address>();
  /** Addresses by their number of handshakes in progress. */
  readonly #groups: AddressGroup[] = [];
  /**
   * Index in `#groups` at which the search for an address with waiting handshakes begins. No group
   * before this index has such an address.
   */
  #fewest = 0;
  /** Highest index in `#groups` at which a group can have addresses. */
  #most = 0;
  #count = 0;
  /** Number of handshakes that may start in this turn of the event loop. */
  #left: number;
  #isScheduled = false;
  #isServing = false;

  /**
   * Creates a queue.
   * @param starts - limit for the handshakes that start in one turn of the event loop
   * @param now - returns the current time in milliseconds. The time must never go back
   */
  constructor(
    { perOwner = Infinity, total = Infinity }: Limit,
    { total: perTurn = Infinity }: Limit,
    now: () => number,
  ) {
    this.#perAddress = perOwner;
    this.#total = total;
    this.#perTurn = perTurn;
    this.#left = perTurn;
    this.#now = now;
  }

  /** Number of addresses with handshakes that wait or are in progress. */
  get addresses(): number {
    return this.#addresses.size;
  }

  /** See {@link Handshake.enter}. */
  enter(handshake: Handshake): void {
    const address = this.#addressOf(handshake.address);
    address.waiting.append(handshake);
    this.#place(address);
    this.#endOverdue(address);
    this.#serve();
  }

  /** See {@link Handshake.leave}. */
  leave(handshake: Handshake): void {
    this.#remove(handshake);
    this.#serve();
  }

  /**
   * Ends the connection whose handshake has waited longest at this address.
   * @returns `false` if no handshake of the address waits
   */
  evictWaiting(name: string): boolean {
    const oldest = this.#addresses.get(name)?.waiting.first;
    if (oldest === undefined) return false;
    this.#remove(oldest);
    oldest.connection.refuse('too-many-from-address');
    return true;
  }

  /** Ends handshakes that keep others waiting for too long. Call it about once per second. */
  sweep(): void {
    for (const address of this.#fullAddresses()) this.#endOverdue(address);
    this.#serve();
  }

  /** Starts waiting handshakes as far as the limits permit. */
  #serve(): void {
    // A connection that ends here calls `leave`, which must not start a second loop.
    if (this.#isServing) return;
    this.#isServing = true;
    while (this.#left > 0) {
      const address = this.#nextAddress();
      if (address === undefined || !this.#makePlace(address)) break;
      this.#startNewest(address);
    }
    this.#isServing = false;
  }

  /** Returns the waiting address that may start a handshake next, apart from the total. */
  #nextAddress(): Address | undefined {
    const end = Math.min(this.#perAddress, this.#groups.length);
    while (this.#fewest < end) {
      const address = this.#groups[this.#fewest]?.waiting.first;
      if (address !== undefined) return address;
      this.#fewest += 1;
    }
    return undefined;
  }

  #makePlace({ count }: Address): boolean {
    if (this.#count < this.#total) return true;
    const most = this.#addressWithMost();
    const oldest = most?.started.first;
    if (most === undefined || oldest === undefined) return false;
    if (most.count < count + 2 && !this.#isOver(oldest, fullQueueMs)) return false;
    this.#refuse(oldest);
    return true;
  }

  #addressWithMost(): Address | undefined {
    while (this.#most > 0) {
      const group = this.#groups[this.#most];
      const address = group?.others.first ?? group?.waiting.first;
      if (address !== undefined) return address;
      this.#most -= 1;
    }
    return undefined;
  }

  #startNewest(address: Address): void {
    const newest = address.waiting.last;
    if (newest === undefined) return;
    address.waiting.remove(newest);
    address.started.append(newest);
    this.#countStart();
    newest.state = 'started';
    newest.startedAt = this.#now();
    this.#count += 1;
    address.count += 1;
    this.#place(address);
    newest.connection.start();
  }

  #countStart(): void {
    this.#left -= 1;
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#left = this.#perTurn;
      this.#serve();
    });
  }

  /** Returns the addresses at their limit that have waiting handshakes. There are only a few. */
  #fullAddresses(): Address[] {
    const full: Address[] = [];
    let address = this.#groups[this.#perAddress]?.waiting.first;
    while (address !== undefined) {
      full.push(address);
      address = address.next;
    }
    return full;
  }

  /**
   * Ends the oldest handshakes of an address at its limit if they take too long. Waiting handshakes
   * of the address start in their place.
   */
  #endOverdue(address: Address): void {
    while (address.count >= this.#perAddress && address.waiting.first !== undefined) {
      const oldest = address.started.first;
      if (oldest === undefined || !this.#isOver(oldest, fullAddressMs)) return;
      this.#refuse(oldest);
      this.#serve();
    }
  }

  #refuse(handshake: Handshake): void {
    this.#remove(handshake);
    handshake.connection.refuse('too-many-handshakes');
  }

  #remove(handshake: Handshake): void {
    const { state } = handshake;
    const address = this.#addresses.get(handshake.address);
    if (state === 'ended' || address === undefined) return;
    handshake.state = 'ended';
    if (state === 'waiting') address.waiting.remove(handshake);
    else {
      address.started.remove(handshake);
      address.count -= 1;
      this.#count -= 1;
    }
    this.#place(address);
  }

  #isOver({ startedAt }: Handshake, ms: number): boolean {
    return this.#now() - startedAt >= ms;
  }

  #addressOf(name: string): Address {
    const known = this.#addresses.get(name);
    if (known !== undefined) return known;
    const address: Address = {
      name,
      waiting: new LinkedList(),
      started: new LinkedList(),
      count: 0,
      list: undefined,
      previous: undefined,
      next: undefined,
    };
    this.#addresses.set(name, address);
    return address;
  }

  /** Moves an address to the list for its state. Deletes an address without handshakes. */
  #place(address: Address): void {
    const { count } = address;
    const isWaiting = address.waiting.first !== undefined;
    if (isWaiting && count < this.#fewest) this.#fewest = count;
    if (count > this.#most) this.#most = count;
    const list = isWaiting || count > 0 ? this.#listOf(count, isWaiting) : undefined;
    if (list === undefined) this.#addresses.delete(address.name);
    if (list === address.list) return;
    address.list?.remove(address);
    address.list = list;
    list?.append(address);
  }

  #listOf(count: number, isWaiting: boolean): LinkedList<Address> {
    const group = this.#groups[count] ?? { waiting: new LinkedList(), others: new LinkedList() };
    this.#groups[count] = group;
    return isWaiting ? group.waiting : group.others;
  }
}
