/** Ids of signals, in the order in which they expire. */

import type { SharedArea, StateOperation } from '#master';
import { FairTable, type Limit, type LimitValues } from '#runtime';
import type { Entry } from '#store';
import { ownerNameOfProject } from '../owner-name.ts';
import type { DeadLetter, OutboxRecord } from './outbox-records.ts';

/** Fields of a signal that are kept in memory. */
export type AgedSignal = Pick<OutboxRecord, 'handle' | 'minion' | 'owner'> &
  Partial<Pick<DeadLetter, 'project'>>;

interface AgedId {
  readonly expiresAt: number;
  /**
   * Minion that sent the signal, if no handle was registered for the signal. Otherwise `undefined`.
   */
  readonly unclaimedOf: string | undefined;
}

interface Stored extends AgedId {
  readonly owner: string;
}

export interface AgedIdsOptions {
  readonly part: 'dead' | 'delivered';
  readonly limit: Limit;
  /** Maximum number of remembered ids, per owner and in total. Default: the maximums of `limit`. */
  readonly amounts?: LimitValues | undefined;
  /** Decodes a stored row. May throw for a damaged row. */
  readonly decode: (entry: Pick<Entry, 'key' | 'value'>) => AgedSignal;
}

/**
 * Ids of the signals in the dead-letter list or in the delivered list, each with its expiry, the
 * oldest first. If there are too many, the oldest id of the owner with the most ids is removed. The
 * owner of a signal is the owner of its handle. Without such an owner, it is the project of the minion,
 * or the minion itself if it belongs to no project.
 */
export class AgedIds {
  readonly #options: AgedIdsOptions;
  readonly #ids: FairTable<AgedId>;
  #evicted: string | undefined;

  constructor(options: AgedIdsOptions) {
    this.#options = options;
    const onEvict = (id: string): void => {
      this.#evicted = id;
    };
    this.#ids = new FairTable(options.limit, { onEvict }, options.amounts);
  }

  /**
   * Loads the ids of signals from the store. In a cluster, also adds the ids that other members
   * store later.
   */
  async follow(state: SharedArea): Promise<void> {
    const found = new Map<string, Stored>();
    let isLoaded = false;
    await state.follow(['signals', this.#options.part], (change) => {
      const id = (change.type === 'put' ? change.entry : change).key.at(-1) ?? '';
      const stored = change.type === 'put' ? this.#readStored(change.entry) : undefined;
      if (stored === undefined) {
        found.delete(id);
        this.#ids.delete(id);
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
   * @returns the store operations that add its row. Above the limit, they also delete the oldest
   * row of the owner with the most rows.
   */
  put(
    { id, ...signal }: AgedSignal & Pick<OutboxRecord, 'id'>,
    value: Uint8Array,
    expiresAt: number,
  ): readonly StateOperation[] {
    const { part } = this.#options;
    const put = { op: 'put', key: ['signals', part, id], value, expiresAt } as const;
    const evicted = this.#add(id, { ...factsOf(signal), expiresAt });
    return evicted === undefined ? [put] : [put, { op: 'delete', key: ['signals', part, evicted] }];
  }

  remove(id: string): void {
    this.#ids.delete(id);
  }

  /** Removes the expired ids from memory. */
  expire(now: number): void {
    for (const [id, { expiresAt }] of this.#ids.entries()) {
      if (expiresAt > now) return;
      this.#ids.delete(id);
    }
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
  #add(id: string, { owner, expiresAt, unclaimedOf }: Stored): string | undefined {
    this.#evicted = undefined;
    const row = { expiresAt, unclaimedOf };
    if (this.#ids.trySet(owner, id, row)) return this.#evicted;
    // Each id has another owner.
    const [oldest] = this.#ids.keys();
    if (oldest !== undefined) this.#ids.delete(oldest);
    this.#ids.trySet(owner, id, row);
    return oldest;
  }

  /** Reads a stored row. The data of the signal are not kept, because they can be large. */
  #readStored(entry: Entry): Stored {
    const expiresAt = entry.expiresAt ?? 0;
    try {
      return { ...factsOf(this.#options.decode(entry)), expiresAt };
    } catch {
      // The list reports the damaged row.
      return { owner: 'damaged rows', expiresAt, unclaimedOf: undefined };
    }
  }
}

function factsOf({ handle, minion, owner, project }: AgedSignal): Omit<Stored, 'expiresAt'> {
  const unclaimedOf = handle === undefined ? minion : undefined;
  const ofMinion = project === undefined ? `minion ${minion}` : ownerNameOfProject(project);
  return { owner: owner ?? ofMinion, unclaimedOf };
}
