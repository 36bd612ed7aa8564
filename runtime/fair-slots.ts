import { assertMayWait, type Limit, type LimitValues, unlimitedWaiting } from './limits.ts';
import { LinkedList, type ListNode } from './linked-list.ts';

/**
 * Request for a slot. It waits until it gets a slot, and holds the slot until `leave` is called.
 */
export interface FairSlot {
  /** Whether the request waits for a slot. */
  readonly isWaiting: boolean;
  /** Releases the slot, or cancels the request. Further calls have no effect. */
  leave(): void;
}

/** Owner that holds slots or waits for some. */
interface Owner extends ListNode<Owner> {
  readonly name: string;
  held: number;
  /** Number of waiting requests. */
  waiting: number;
  readonly requests: LinkedList<Request>;
  /**
   * List of waiting owners that contains this owner. The owners in a list take turns. `undefined`
   * while this owner does not wait.
   */
  ring: LinkedList<Owner> | undefined;
}

/**
 * A limited number of slots that owners share. One owner may hold at most `perOwner` slots. The
 * last `reserved` slots are only for owners that hold no slot yet. If several owners wait, those
 * without a slot are served first. Within each of these two groups, the owners take turns. Each
 * operation takes constant time.
 */
export class FairSlots {
  readonly #limit: Limit;
  readonly #total: number;
  readonly #perOwner: number;
  readonly #reserved: number;
  readonly #maxWaiting: { readonly perOwner: number; readonly total: number };
  readonly #owners = new Map<string, Owner>();
  /** Waiting owners without a slot, in the order of their turns. */
  readonly #withoutSlot = new LinkedList<Owner>();
  /**
   * Waiting owners that hold at least one slot, and fewer than the maximum per owner. They are in
   * the order of their turns.
   */
  readonly #withSlots = new LinkedList<Owner>();
  #held = 0;
  #waiting = 0;

  /**
   * Creates the slots.
   * @param values - numbers that replace those of `limit`: slots in total, slots of one owner,
   * reserved slots, and requests that may wait. Default: those of `limit`
   */
  constructor(limit: Limit, values: LimitValues = limit) {
    this.#limit = limit;
    this.#total = values.total ?? Infinity;
    this.#perOwner = values.perOwner ?? Infinity;
    this.#reserved = values.reserved ?? 0;
    this.#maxWaiting = values.waiting ?? { perOwner: 0, total: 0 };
  }

  /** Number of slots in use. */
  get held(): number {
    return this.#held;
  }

  /** Number of waiting requests of all owners. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Number of owners that hold slots or wait. */
  get owners(): number {
    return this.#owners.size;
  }

  /** Returns the number of slots that an owner holds. */
  heldBy(owner: string): number {
    return this.#owners.get(owner)?.held ?? 0;
  }

  /**
   * Requests a slot.
   * @param onEntered - function that is called when the request gets a slot. If a slot is free for
   * the owner, `enter` calls the function before it returns
   * @throws LimitExceeded if the owner cannot have a slot now and no further request may wait
   */
  enter(name: string, onEntered?: () => void): FairSlot {
    const owner = this.#owners.get(name) ?? createOwner(name);
    const isFree = owner.waiting === 0 && this.#mayEnter(owner);
    if (!isFree) assertMayWait(this.#limit, this.#maxWaiting, owner.waiting, this.#waiting);
    this.#owners.set(name, owner);
    const request = new Request(owner, onEntered, (it) => this.#leave(it));
    if (isFree) this.#admit(request);
    else this.#queue(request);
    return request;
  }

  /**
   * Waits for a free slot if necessary, runs `work`, and releases the slot. `work` may release the
   * slot earlier.
   * @throws LimitExceeded if no slot is free and no further request may wait
   */
  async run<T>(owner: string, work: (slot: FairSlot) => Promise<T>): Promise<T> {
    let enter = (): void => {};
    const slot = this.enter(owner, () => enter());
    if (slot.isWaiting) {
      await new Promise<void>((resolve) => {
        enter = resolve;
      });
    }
    try {
      return await work(slot);
    } finally {
      slot.leave();
    }
  }

  #mayEnter({ held }: Owner): boolean {
    const free = this.#total - this.#held - (held === 0 ? 0 : this.#reserved);
    return free > 0 && held < this.#perOwner;
  }

  #admit(request: Request): void {
    request.state = 'entered';
    request.owner.held += 1;
    this.#held += 1;
    request.onEntered?.();
  }

  #queue(request: Request): void {
    const { owner } = request;
    owner.requests.append(request);
    owner.waiting += 1;
    this.#waiting += 1;
    this.#place(owner);
  }

  #unqueue(request: Request): void {
    const { owner } = request;
    owner.requests.remove(request);
    owner.waiting -= 1;
    this.#waiting -= 1;
  }

  #leave(request: Request): void {
    const { owner, state } = request;
    if (state === 'left') return;
    request.state = 'left';
    if (state === 'waiting') this.#unqueue(request);
    else {
      owner.held -= 1;
      this.#held -= 1;
    }
    this.#place(owner);
    if (owner.held === 0 && owner.waiting === 0) this.#owners.delete(owner.name);
    this.#serve();
  }

  #serve(): void {
    for (;;) {
      const owner = this.#withoutSlot.first ?? this.#withSlots.first;
      const request = owner?.requests.first;
      if (owner === undefined || request === undefined || !this.#mayEnter(owner)) return;
      this.#unqueue(request);
      // The owner moves to the end of its list, so that the other owners have their turns first.
      owner.ring?.remove(owner);
      owner.ring = undefined;
      this.#admit(request);
      this.#place(owner);
    }
  }

  /**
   * Moves an owner to the list for its state: owners that wait and have no slot, or owners that
   * wait and have slots. Owners that do not wait, or already hold `perOwner` slots, are in neither
   * list.
   */
  #place(owner: Owner): void {
    const ring = this.#ringOf(owner);
    if (ring === owner.ring) return;
    owner.ring?.remove(owner);
    owner.ring = ring;
    ring?.append(owner);
  }

  #ringOf({ waiting, held }: Owner): LinkedList<Owner> | undefined {
    if (waiting === 0 || held >= this.#perOwner) return undefined;
    return held === 0 ? this.#withoutSlot : this.#withSlots;
  }
}

/**
 * Slots for each key, for example for each service. Owners that wait for the slots of a key take
 * turns. Any number of requests may wait.
 */
export class KeyedFairSlots {
  readonly #limit: Limit;
  readonly #values: LimitValues;
  readonly #slots = new Map<string, FairSlots>();

  /**
   * Creates the slots.
   * @param total - number of slots for each key. Default: `perOwner` of `limit`
   */
  constructor(limit: Limit, total: number = limit.perOwner ?? Infinity) {
    this.#limit = limit;
    this.#values = { total, waiting: unlimitedWaiting };
  }

  /**
   * Runs `work` as soon as a slot of this key is free for the owner. Releases the slot afterwards.
   */
  async run<T>(key: string, owner: string, work: () => Promise<T>): Promise<T> {
    const slots = this.#slots.get(key) ?? new FairSlots(this.#limit, this.#values);
    this.#slots.set(key, slots);
    try {
      return await slots.run(owner, work);
    } finally {
      if (slots.owners === 0) this.#slots.delete(key);
    }
  }
}

class Request implements ListNode<Request>, FairSlot {
  readonly owner: Owner;
  readonly onEntered: (() => void) | undefined;
  readonly #leave: (request: Request) => void;
  previous: Request | undefined;
  next: Request | undefined;
  state: 'waiting' | 'entered' | 'left' = 'waiting';

  constructor(
    owner: Owner,
    onEntered: (() => void) | undefined,
    leave: (request: Request) => void,
  ) {
    this.owner = owner;
    this.onEntered = onEntered;
    this.#leave = leave;
  }

  get isWaiting(): boolean {
    return this.state === 'waiting';
  }

  leave(): void {
    this.#leave(this);
  }
}

function createOwner(name: string): Owner {
  return {
    name,
    held: 0,
    waiting: 0,
    requests: new LinkedList(),
    ring: undefined,
    previous: undefined,
    next: undefined,
  };
}
