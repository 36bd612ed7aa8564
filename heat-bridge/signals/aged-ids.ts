/** Ids of signals, in the order in which they expire. */

import type { SharedArea, StateOperation } from '#master';
import { Budget, FairTable, type Limit, type LimitValues } from '#runtime';
import type { Entry } from '#store';
import { ownerNameOfProject } from '../owner-name.ts';
import type { DeadLetter, OutboxRecord } from './outbox-records.ts';
import type { OutboxSelection } from './signals-api.ts';

/** Fields of a signal that are kept in memory. */
export type AgedSignal = Pick<OutboxRecord, 'alias' | 'handle' | 'minion' | 'owner'> &
  Partial<Pick<DeadLetter, 'project'>>;

interface AgedId {
  readonly expiresAt: number;
  /** Size of the row in the store. */
  readonly bytes: number;
  /** Owner for which the row is counted. */
  readonly countedOwner: string;
  /** Alias of the signal. `undefined` if the row is damaged. */
  readonly alias: string | undefined;
  /** Owner of the handle. */
  readonly owner: string | undefined;
  /**
   * Minion that sent the signal, if no handle was registered for the signal. Otherwise `undefined`.
   */
  readonly unclaimedOf: string | undefined;
}

export interface AgedIdsOptions {
  readonly part: 'dead' | 'delivered';
  readonly limit: Limit;
  /** Maximum number of remembered ids, per owner and in total. Default: the maximums of `limit`. */
  readonly amounts?: LimitValues | undefined;
  /** Limit on the size of the rows, in bytes. Default: no limit. */
  readonly bytesLimit?: Limit;
  /** Maximum size of the rows, per owner and in total. Default: the maximums of `bytesLimit`. */
  readonly byteAmounts?: LimitValues | undefined;
  /** Decodes a stored row. May throw for a damaged row. */
  readonly decode: (entry: Pick<Entry, 'key' | 'value'>) => AgedSignal;
}

/**
 * Maximum number of rows that are deleted to make space for the bytes of one new row. The store of
 * an earlier version can exceed the limit by many rows, which are then deleted step by step.
 */
const maxDeletions = 100;

/**
 * Ids of the signals in the dead-letter list or in the delivered list, each with its expiry, the
 * oldest first. If there are too many, the oldest id of the owner with the most ids is removed. If
 * the rows of an owner are too large, the oldest ids of this owner are removed. If all rows are too
 * large, the oldest ids of the owner with the most bytes are removed. The owner of a signal is the
 * owner of its handle. Without such an owner, it is the project of the minion, or the minion itself
 * if it belongs to no project.
 */
export class AgedIds {
  readonly #options: AgedIdsOptions;
  readonly #ids: FairTable<AgedId>;
  readonly #byteAmounts: LimitValues;
  readonly #bytes: Budget;
  #evicted: string | undefined;

  constructor(options: AgedIdsOptions) {
    this.#options = options;
    const onEvict = (id: string, row: AgedId): void => {
      this.#evicted = id;
      this.#release(row);
    };
    this.#ids = new FairTable(options.limit, { onEvict }, options.amounts);
    const { limit, bytesLimit, byteAmounts = bytesLimit ?? {} } = options;
    this.#byteAmounts = byteAmounts;
    this.#bytes = new Budget(bytesLimit ?? limit, byteAmounts);
  }

  /**
   * Loads the ids of signals from the store. In a cluster, also adds the ids that other members
   * store later.
   */
  async follow(state: SharedArea): Promise<void> {
    const found = new Map<string, AgedId>();
    let isLoaded = false;
    await state.follow(['signals', this.#options.part], (change) => {
      const id = (change.type === 'put' ? change.entry : change).key.at(-1) ?? '';
      const stored = change.type === 'put' ? this.#readStored(change.entry) : undefined;
      if (stored === undefined) {
        found.delete(id);
        this.remove(id);
      } else if (isLoaded) this.#add(id, stored);
      else found.set(id, stored);
    });
    isLoaded = true;
    const sorted = [...found].sort(([, a], [, b]) => a.expiresAt - b.expiresAt);
    for (const [id, stored] of sorted) this.#add(id, stored);
  }

  get size(): number {
    return this.#ids.size;
  }

  /**
   * Adds an id.
   * @returns the store operations that add its row. Above a limit, they also delete the rows of the
   * ids that were removed.
   */
  put(
    { id, ...signal }: AgedSignal & Pick<OutboxRecord, 'id'>,
    value: Uint8Array,
    expiresAt: number,
  ): readonly StateOperation[] {
    const { part } = this.#options;
    const put = { op: 'put', key: ['signals', part, id], value, expiresAt } as const;
    const row = { ...factsOf(signal), expiresAt, bytes: value.length };
    const evicted = this.#add(id, row);
    const removed = [...(evicted === undefined ? [] : [evicted]), ...this.#shrink(id, row)];
    return [put, ...removed.map((it) => ({ op: 'delete', key: ['signals', part, it] }) as const)];
  }

  remove(id: string): void {
    const row = this.#ids.peek(id);
    if (row !== undefined) this.#release(row);
    this.#ids.delete(id);
  }

  #release({ countedOwner, bytes }: AgedId): void {
    this.#bytes.release(countedOwner, bytes);
  }

  /** Removes the expired ids from memory. */
  expire(now: number): void {
    for (const [id, { expiresAt }] of this.#ids.entries()) {
      if (expiresAt > now) return;
      this.remove(id);
    }
  }

  /** Returns the ids that match a selection, the oldest first. */
  idsOf({ id: wanted, alias, owner }: OutboxSelection): readonly string[] {
    const ids: string[] = [];
    for (const [id, row] of this.#ids.entries()) {
      if (wanted !== undefined && wanted !== id) continue;
      if (alias !== undefined && alias !== row.alias) continue;
      if (owner === undefined || owner === row.owner) ids.push(id);
    }
    return ids;
  }

  /**
   * Returns the ids of these minions' signals that have no registered handle, the oldest first. If
   * there are more than `most`, omits the oldest ones.
   */
  unclaimedOf(minions: ReadonlySet<string>, most: number): readonly string[] {
    const ids: string[] = [];
    for (const [id, { unclaimedOf }] of this.#ids.entries()) {
      if (unclaimedOf !== undefined && minions.has(unclaimedOf)) ids.push(id);
    }
    return ids.slice(-most);
  }

  /** Adds an id. Returns the id that was removed to make space for it, or `undefined`. */
  #add(id: string, row: AgedId): string | undefined {
    this.#evicted = undefined;
    this.remove(id);
    this.#bytes.take(row.countedOwner, row.bytes);
    if (this.#ids.trySet(row.countedOwner, id, row)) return this.#evicted;
    // Each id has another owner.
    const [oldest] = this.#ids.keys();
    if (oldest !== undefined) this.remove(oldest);
    this.#ids.trySet(row.countedOwner, id, row);
    return oldest;
  }

  /** Removes ids until the rows fit into the limit on their bytes. Returns the removed ids. */
  #shrink(added: string, { countedOwner }: AgedId): readonly string[] {
    const { perOwner = Infinity } = this.#byteAmounts;
    const removed: string[] = [];
    while (removed.length < maxDeletions) {
      const isOwnerFull = this.#bytes.heldBy(countedOwner) > perOwner;
      if (!isOwnerFull && this.#bytes.free >= 0) break;
      const owner = isOwnerFull ? countedOwner : this.#bytes.largestHolder;
      const oldest = owner === undefined ? undefined : this.#ids.oldestOf(owner);
      if (oldest === undefined || oldest === added) break;
      this.remove(oldest);
      removed.push(oldest);
    }
    return removed;
  }

  /** Reads a stored row. The data of the signal are not kept, because they can be large. */
  #readStored(entry: Entry): AgedId {
    const expiresAt = entry.expiresAt ?? Number.MAX_SAFE_INTEGER;
    try {
      const facts = factsOf(this.#options.decode(entry));
      return { ...facts, expiresAt, bytes: entry.value.length };
    } catch {
      // A list of all signals reports the damaged row.
      const none = { alias: undefined, owner: undefined, unclaimedOf: undefined };
      return { ...none, expiresAt, countedOwner: 'damaged rows', bytes: 0 };
    }
  }
}

function factsOf(signal: AgedSignal): Omit<AgedId, 'bytes' | 'expiresAt'> {
  const { alias, handle, minion, owner, project } = signal;
  const unclaimedOf = handle === undefined ? minion : undefined;
  const ofMinion = project === undefined ? `minion ${minion}` : ownerNameOfProject(project);
  return { alias, owner, countedOwner: owner ?? ofMinion, unclaimedOf };
}
