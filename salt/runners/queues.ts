/** Queues of values in the master's store, for the `queue` runner. */

import { hash } from 'node:crypto';
import { packLocalWithin, unpackLocal, type WireValue } from '#minion-protocol';
import { type LimitValues, releaseAll, tryTakeAll, type WorkBudget } from '#runtime';
import type { Operation, Store } from '#store';
import { refused } from '../functions/define-function.ts';
import { saltLimits } from '../limits.ts';
import { IndexedEntries, listInTurns } from './indexed-entries.ts';
import { operatorOwner, StoredAmounts, valueWorkOf } from './stored-amounts.ts';

const root = 'runner-queues';

/** Limits of all queues together. */
export interface QueueLimits {
  readonly items: LimitValues;
  readonly bytes: LimitValues;
}

const usualLimits: QueueLimits = { items: saltLimits.queueItems, bytes: saltLimits.queueBytes };
/** Maximum size of an item in a queue, in bytes. */
const maxItemBytes = 65_536;
const itemsPerTurn = 64;
/**
 * Estimated work for packing or unpacking an item and computing its digest, in steps of a
 * `WorkBudget`. Each byte of the item adds one step.
 */
const stepsOfItem = 200;

/** Position of an item in its queue, and its size in bytes. */
interface ItemPlace {
  /** Sequence number. Older items have lower numbers. */
  readonly sequence: number;
  readonly bytes: number;
  /** Owner whose limits include the item, as `ownerOfValues` returns it. */
  readonly owner: string;
}

/**
 * Index of all queues. It contains the positions of the items, but not the items themselves. A
 * change of a queue reads only the items that it removes.
 */
class QueueIndex {
  /** Positions of the items, by queue and by the digest of the item. */
  readonly #queues = new Map<string, Map<string, ItemPlace>>();
  readonly #items: StoredAmounts;
  readonly #bytes: StoredAmounts;
  #last = 0;

  constructor({ items, bytes }: QueueLimits) {
    this.#items = new StoredAmounts(saltLimits.queueItems, items);
    this.#bytes = new StoredAmounts(saltLimits.queueBytes, bytes);
  }

  static async read(store: Store, limits: QueueLimits): Promise<QueueIndex> {
    const index = new QueueIndex(limits);
    const budget = valueWorkOf(operatorOwner);
    for await (const { key, value } of listInTurns(store, [root], itemsPerTurn, budget)) {
      const [, queue = '', sequence = '0', owner = operatorOwner] = key;
      const place = { sequence: Number(sequence), bytes: value.byteLength, owner };
      index.#items.take(owner, 1);
      index.#bytes.take(owner, place.bytes);
      index.add(queue, digestOf(value), place);
    }
    return index;
  }

  /**
   * Counts an item towards the limits, before it is added.
   * @throws MasterError ERR_ARGS if a limit is reached
   */
  reserve(item: ItemPlace): void {
    const full = tryTakeAll(this.#partsOf(item));
    if (full === undefined) return;
    throw refused(`the queues are full (${full.budget.maximumOf(item.owner)} ${full.unit})`);
  }

  /** Stops counting an item that was removed from its queue, or that was reserved but not added. */
  release(item: ItemPlace): void {
    releaseAll(this.#partsOf(item));
  }

  #partsOf({ owner, bytes }: ItemPlace) {
    return [
      { budget: this.#items, owner, amount: 1, unit: 'items' },
      { budget: this.#bytes, owner, amount: bytes, unit: 'bytes' },
    ];
  }

  /** Sequence number of the item that was added last, in any queue. */
  get last(): number {
    return this.#last;
  }

  names(): string[] {
    return [...this.#queues.keys()].sort();
  }

  length(queue: string): number {
    return this.#queues.get(queue)?.size ?? 0;
  }

  /** Returns the number of items whose owner is not the operator. */
  lengthOfOthers(queue: string): number {
    const places = this.#queues.get(queue)?.values() ?? [];
    return [...places].filter(({ owner }) => owner !== operatorOwner).length;
  }

  find(queue: string, digest: string): ItemPlace | undefined {
    return this.#queues.get(queue)?.get(digest);
  }

  /** Adds an item that {@link reserve} has counted. */
  add(queue: string, digest: string, place: ItemPlace): void {
    const places = this.#queues.get(queue) ?? new Map<string, ItemPlace>();
    this.#queues.set(queue, places.set(digest, place));
    this.#last = Math.max(this.#last, place.sequence);
  }

  remove(queue: string, digest: string): void {
    const places = this.#queues.get(queue);
    const place = places?.get(digest);
    if (places === undefined || place === undefined) return;
    places.delete(digest);
    if (places.size === 0) this.#queues.delete(queue);
    this.release(place);
  }
}

/** Queues of values by name, oldest first. A queue contains each value at most once. */
export class Queues {
  readonly #store: Store;
  readonly #entries: IndexedEntries<QueueIndex>;

  constructor(store: Store, limits: QueueLimits = usualLimits) {
    this.#store = store;
    this.#entries = new IndexedEntries(store, (it) => QueueIndex.read(it, limits));
  }

  /**
   * Adds items to a queue, except those that it already contains. An item of the operator replaces
   * an equal item of a user, because the operator's runner calls run with all rights.
   * @param owner - result of {@link ownerOfValues} for the caller
   * @throws MasterError ERR_ARGS if a limit is reached
   */
  insert(queue: string, items: readonly WireValue[], owner: string = operatorOwner): Promise<void> {
    return this.#entries.run(owner, async (index) => {
      const added = new Map<string, ItemPlace>();
      try {
        await this.#insert({ queue, owner, index, added }, items);
      } catch (error) {
        for (const place of added.values()) index.release(place);
        throw error;
      }
      for (const [digest, place] of added) {
        index.remove(queue, digest);
        index.add(queue, digest, place);
      }
    });
  }

  async #insert(
    { queue, owner, index, added }: Insertion,
    items: readonly WireValue[],
  ): Promise<void> {
    const steps: Operation[] = [];
    const budget = valueWorkOf(owner);
    for (const item of items) {
      const value = packLocalWithin(item, maxItemBytes);
      if (value === undefined) throw refused(`an item exceeds ${maxItemBytes} bytes`);
      await budget.giveWayAfter(stepsOfItem + value.length);
      const digest = digestOf(value);
      const known = index.find(queue, digest);
      const isReplaced = owner === operatorOwner && known?.owner !== operatorOwner;
      if (added.has(digest) || (known !== undefined && !isReplaced)) continue;
      const sequence = index.last + added.size + 1;
      const place = { sequence, bytes: value.length, owner };
      index.reserve(place);
      added.set(digest, place);
      if (known !== undefined) steps.push({ op: 'delete', key: keyOf(queue, known) });
      steps.push({ op: 'put', key: keyOf(queue, place), value });
    }
    await this.#entries.write(steps);
  }

  /**
   * Removes these items from a queue, regardless of their position.
   * @param owner - caller towards whose limits this work counts, as {@link ownerOfValues} returns
   * it. Default: the operator
   */
  delete(queue: string, items: readonly WireValue[], owner: string = operatorOwner): Promise<void> {
    return this.#entries.run(owner, async (index) => {
      const digests = new Set<string>();
      const budget = valueWorkOf(owner);
      for (const item of items) {
        const value = packLocalWithin(item, maxItemBytes);
        await budget.giveWayAfter(stepsOfItem + (value?.length ?? maxItemBytes));
        // No queue contains an item that is too large.
        if (value === undefined) continue;
        digests.add(digestOf(value));
      }
      const places = [...digests].flatMap((digest) => index.find(queue, digest) ?? []);
      await this.#remove(queue, places);
      for (const digest of digests) index.remove(queue, digest);
    });
  }

  /**
   * Removes and returns the oldest items.
   * @param quantity - number of items; `undefined`: all
   * @param owner - result of {@link ownerOfValues} for the caller
   * @param isWanted - whether to remove an item of this owner. Default: items of all owners
   */
  pop(
    queue: string,
    quantity: number | undefined,
    owner: string = operatorOwner,
    isWanted: (owner: string) => boolean = () => true,
  ): Promise<WireValue[]> {
    return this.#entries.run(owner, async (index) => {
      const budget = valueWorkOf(owner);
      const taken = await this.#read({ queue, quantity, isWanted }, budget);
      await this.#remove(queue, taken);
      for (const { value } of taken) {
        await budget.giveWayAfter(stepsOfItem + value.length);
        index.remove(queue, digestOf(value));
      }
      return unpackItems(taken, budget);
    });
  }

  /**
   * Returns the unpacked items of a queue.
   * @param owner - caller whose budget pays for the work: a result of {@link ownerOfValues}
   */
  async items(queue: string, owner: string = operatorOwner): Promise<WireValue[]> {
    const budget = valueWorkOf(owner);
    return unpackItems(await this.#read({ queue }, budget), budget);
  }

  /**
   * Returns the number of items in a queue.
   * @param owner - caller that the work counts for, as {@link ownerOfValues} returns it
   */
  length(queue: string, owner: string = operatorOwner): Promise<number> {
    return this.#entries.run(owner, async (index) => index.length(queue));
  }

  /** Returns the number of items whose owner is not the operator. */
  lengthOfOthers(queue: string): Promise<number> {
    return this.#entries.run(operatorOwner, async (index) => index.lengthOfOthers(queue));
  }

  /**
   * Returns the names of all queues that contain items.
   * @param owner - caller whose budget pays for the work: a result of {@link ownerOfValues}
   */
  names(owner: string = operatorOwner): Promise<string[]> {
    return this.#entries.run(owner, async (index) => index.names());
  }

  #remove(queue: string, items: readonly KeyParts[]): Promise<void> {
    return this.#entries.write(items.map((it) => ({ op: 'delete', key: keyOf(queue, it) })));
  }

  async #read({ queue, quantity, isWanted }: Selection, budget: WorkBudget): Promise<StoredItem[]> {
    const items: StoredItem[] = [];
    const page = Math.min(quantity ?? itemsPerTurn, itemsPerTurn);
    for await (const { key, value } of listInTurns(this.#store, [root, queue], page, budget)) {
      const owner = key[3] ?? operatorOwner;
      if (isWanted?.(owner) === false) continue;
      items.push({ sequence: Number(key[2]), owner, value });
      if (items.length === quantity) break;
    }
    return items;
  }
}

/**
 * Owner and sequence number of an item. With the name of the queue, they form the item's key in the
 * store.
 */
type KeyParts = Pick<ItemPlace, 'owner' | 'sequence'>;

/** Oldest items of a queue. Default: all items. */
interface Selection {
  readonly queue: string;
  readonly quantity?: number | undefined;
  readonly isWanted?: (owner: string) => boolean;
}

/** Items that are being added to a queue. */
interface Insertion {
  readonly queue: string;
  readonly owner: string;
  readonly index: QueueIndex;
  /** New items: the owner, size and sequence number of each item, by the digest of its content. */
  readonly added: Map<string, ItemPlace>;
}

interface StoredItem extends KeyParts {
  readonly value: Uint8Array;
}

/** Unpacks items. Lets other work run after each slice. */
async function unpackItems(items: readonly StoredItem[], budget: WorkBudget): Promise<WireValue[]> {
  const values: WireValue[] = [];
  for (const { value } of items) {
    await budget.giveWayAfter(stepsOfItem + value.length);
    values.push(unpackLocal(value));
  }
  return values;
}

function digestOf(value: Uint8Array): string {
  return hash('sha256', value, 'base64');
}

function keyOf(queue: string, { sequence, owner }: KeyParts): readonly string[] {
  const key = [root, queue, String(sequence).padStart(16, '0')];
  // Older versions have stored keys without an owner.
  return owner === operatorOwner ? key : [...key, owner];
}
