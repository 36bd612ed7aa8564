/** Queues of values in the master's store, for the `queue` runner. */

import { createHash } from 'node:crypto';
import { packLocal, unpackLocal, type WireValue } from '#minion-protocol';
import { userWork, WorkBudget } from '#runtime';
import type { Operation, Store } from '#store';
import { refused } from '../functions/define-function.ts';
import { giveWayAfter } from './give-way.ts';
import { IndexedEntries, listInTurns } from './indexed-entries.ts';

const root = 'runner-queues';

/** Limits that apply to all queues together. */
export interface QueueLimits {
  readonly items: number;
  readonly bytes: number;
}

const usualLimits: QueueLimits = { items: 100_000, bytes: 64 * 1_048_576 };
/** Maximum size of an item in a queue, in bytes. */
const maxItemBytes = 65_536;
const itemsPerTurn = 64;
/** Steps of packing or unpacking an item and of its digest, besides one step for each byte. */
const stepsOfItem = 200;

/** Position of an item in its queue, and its size in bytes. */
interface ItemPlace {
  /** Sequence number. Older items have lower numbers. */
  readonly sequence: number;
  readonly bytes: number;
}

/** Index of the queues, without the items. A change reads only the items that it removes. */
class QueueIndex {
  /** Positions of the items, by queue and by the digest of the item. */
  readonly #queues = new Map<string, Map<string, ItemPlace>>();
  #items = 0;
  #bytes = 0;
  #last = 0;

  static async read(store: Store): Promise<QueueIndex> {
    const index = new QueueIndex();
    for await (const { key, value } of listInTurns(store, [root], itemsPerTurn)) {
      const [, queue = '', sequence = '0'] = key;
      const place = { sequence: Number(sequence), bytes: value.byteLength };
      index.add(queue, digestOf(value), place);
    }
    return index;
  }

  get items(): number {
    return this.#items;
  }

  get bytes(): number {
    return this.#bytes;
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

  find(queue: string, digest: string): ItemPlace | undefined {
    return this.#queues.get(queue)?.get(digest);
  }

  add(queue: string, digest: string, place: ItemPlace): void {
    const places = this.#queues.get(queue) ?? new Map<string, ItemPlace>();
    this.#queues.set(queue, places.set(digest, place));
    this.#items += 1;
    this.#bytes += place.bytes;
    this.#last = Math.max(this.#last, place.sequence);
  }

  remove(queue: string, digest: string): void {
    const places = this.#queues.get(queue);
    const place = places?.get(digest);
    if (places === undefined || place === undefined) return;
    places.delete(digest);
    if (places.size === 0) this.#queues.delete(queue);
    this.#items -= 1;
    this.#bytes -= place.bytes;
  }
}

/** Queues of values by name, oldest first. A queue contains each value at most once. */
export class Queues {
  readonly #store: Store;
  readonly #limits: QueueLimits;
  readonly #entries: IndexedEntries<QueueIndex>;

  constructor(store: Store, limits: QueueLimits = usualLimits) {
    this.#store = store;
    this.#entries = new IndexedEntries(store, QueueIndex.read);
    this.#limits = limits;
  }

  /**
   * Adds items to a queue, except those that it already contains.
   * @throws MasterError ERR_ARGS if a limit is reached
   */
  insert(queue: string, items: readonly WireValue[]): Promise<void> {
    return this.#entries.run(async (index) => {
      const added = new Map<string, ItemPlace>();
      const steps: Operation[] = [];
      const budget = new WorkBudget(userWork);
      let bytes = index.bytes;
      for (const item of items) {
        const value = packLocal(item);
        await giveWayAfter(budget, stepsOfItem + value.length);
        if (value.length > maxItemBytes) throw refused(`an item exceeds ${maxItemBytes} bytes`);
        const digest = digestOf(value);
        if (added.has(digest) || index.find(queue, digest) !== undefined) continue;
        const sequence = index.last + added.size + 1;
        bytes += value.length;
        added.set(digest, { sequence, bytes: value.length });
        this.#checkRoom(index.items + added.size, bytes);
        steps.push({ op: 'put', key: keyOf(queue, sequence), value });
      }
      await this.#entries.write(steps);
      for (const [digest, place] of added) index.add(queue, digest, place);
    });
  }

  /** Removes these items from a queue, regardless of their position. */
  delete(queue: string, items: readonly WireValue[]): Promise<void> {
    return this.#entries.run(async (index) => {
      const digests = new Set<string>();
      const budget = new WorkBudget(userWork);
      for (const item of items) {
        const value = packLocal(item);
        await giveWayAfter(budget, stepsOfItem + value.length);
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
   */
  pop(queue: string, quantity: number | undefined): Promise<WireValue[]> {
    return this.#entries.run(async (index) => {
      const taken = await this.#read(queue, quantity);
      await this.#remove(queue, taken);
      const budget = new WorkBudget(userWork);
      for (const { value } of taken) {
        await giveWayAfter(budget, stepsOfItem + value.length);
        index.remove(queue, digestOf(value));
      }
      return unpackItems(taken);
    });
  }

  async items(queue: string): Promise<WireValue[]> {
    return unpackItems(await this.#read(queue, undefined));
  }

  length(queue: string): Promise<number> {
    return this.#entries.run(async (index) => index.length(queue));
  }

  names(): Promise<string[]> {
    return this.#entries.run(async (index) => index.names());
  }

  #checkRoom(items: number, bytes: number): void {
    const limits = this.#limits;
    if (items > limits.items) throw refused(`the queues are full (${limits.items} items)`);
    if (bytes > limits.bytes) throw refused(`the queues are full (${limits.bytes} bytes)`);
  }

  #remove(queue: string, items: readonly { readonly sequence: number }[]): Promise<void> {
    return this.#entries.write(
      items.map(({ sequence }) => ({ op: 'delete', key: keyOf(queue, sequence) })),
    );
  }

  async #read(queue: string, quantity: number | undefined): Promise<StoredItem[]> {
    const items: StoredItem[] = [];
    const page = Math.min(quantity ?? itemsPerTurn, itemsPerTurn);
    for await (const { key, value } of listInTurns(this.#store, [root, queue], page)) {
      items.push({ sequence: Number(key[2]), value });
      if (items.length === quantity) break;
    }
    return items;
  }
}

interface StoredItem {
  readonly sequence: number;
  readonly value: Uint8Array;
}

/** Unpacks items. Lets other work run after each slice. */
async function unpackItems(items: readonly StoredItem[]): Promise<WireValue[]> {
  const values: WireValue[] = [];
  const budget = new WorkBudget(userWork);
  for (const { value } of items) {
    await giveWayAfter(budget, stepsOfItem + value.length);
    values.push(unpackLocal(value));
  }
  return values;
}

function digestOf(value: Uint8Array): string {
  return createHash('sha256').update(value).digest('base64');
}

function keyOf(queue: string, sequence: number): readonly string[] {
  return [root, queue, String(sequence).padStart(16, '0')];
}
