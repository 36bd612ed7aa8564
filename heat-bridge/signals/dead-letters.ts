/** Dead-letter list: signals that failed permanently. */

import type { SharedArea, StateOperation } from '#master';
import { type LimitValues, unlimitedSteps, WorkBudget } from '#runtime';
import { isConflict } from '#store';
import { BridgeError } from '../errors.ts';
import { bridgeLimits } from '../limits.ts';
import { AgedIds } from './aged-ids.ts';
import { type OutboxEntry, outboxEntryOf } from './outbox-entry.ts';
import {
  type DeadLetter,
  deadRow,
  type OutboxRecord,
  packRecord,
  stepsOfRow,
  unpackSignal,
  type WithoutData,
  withoutData,
} from './outbox-records.ts';
import type { OutboxSelection } from './signals-api.ts';

export interface DeadLetterListOptions {
  readonly state: SharedArea;
  /** Time for which dead letters are stored, in milliseconds. */
  readonly keepMs: number;
  /**
   * Maximum number of dead letters per owner and in total. Default: 10,000 in total, without a
   * maximum per owner.
   */
  readonly amounts?: LimitValues;
  /** Maximum size of dead letters per owner and in total. Default: the limit `deadLetterBytes`. */
  readonly byteAmounts?: LimitValues;
  readonly now: () => number;
}

/**
 * Signals that will not be delivered, with the reasons. Operators can inspect them, and send them
 * again. If there are more than 10,000, the owner with the most dead letters loses its oldest one.
 * If they have too many bytes, the owner with the most bytes loses its oldest ones.
 */
export class DeadLetterList {
  readonly #options: DeadLetterListOptions;
  readonly #ids: AgedIds;

  private constructor(options: DeadLetterListOptions) {
    this.#options = options;
    const { amounts, byteAmounts } = options;
    this.#ids = new AgedIds({
      part: 'dead',
      limit: bridgeLimits.deadLetters,
      amounts,
      bytesLimit: bridgeLimits.deadLetterBytes,
      byteAmounts,
      decode: (entry) => deadRow.decode(entry),
    });
  }

  static async open(options: DeadLetterListOptions): Promise<DeadLetterList> {
    const letters = new DeadLetterList(options);
    await letters.#ids.follow(options.state);
    return letters;
  }

  /** Number of dead letters that have not expired. */
  get size(): number {
    this.#ids.expire(this.#options.now());
    return this.#ids.size;
  }

  /**
   * Yields the dead letters that match a selection, in the order in which they failed. Reads only
   * these from the store, with pauses, and does not yield their data.
   * @throws StoreError ERR_STORE_CORRUPT
   */
  async *select(selection: OutboxSelection = {}): AsyncGenerator<WithoutData<DeadLetter>, void> {
    this.#ids.expire(this.#options.now());
    yield* this.#read(this.#ids.idsOf(selection));
  }

  /** Yields the dead letters with these ids, with pauses. Omits those that were removed. */
  async *#read(ids: readonly string[]): AsyncGenerator<WithoutData<DeadLetter>, void> {
    const work = new WorkBudget(unlimitedSteps);
    for (const id of ids) {
      const entry = await this.#options.state.get(['signals', 'dead', id]);
      if (entry === undefined) continue;
      yield withoutData(deadRow.decode(entry));
      await work.giveWayAfter(stepsOfRow(entry.value.length));
    }
  }

  /**
   * Returns dead letters from these minions for which no handle was registered, the oldest first.
   * Reads only these dead letters from the store.
   * @param most - maximum number. If there are more, returns only the latest ones
   */
  async unclaimedOf(minions: ReadonlySet<string>, most: number): Promise<readonly OutboxEntry[]> {
    const entries: OutboxEntry[] = [];
    for await (const dead of this.#read(this.#ids.unclaimedOf(minions, most))) {
      entries.push(outboxEntryOf(dead, 'dead', dead));
    }
    return entries;
  }

  /**
   * Returns a dead letter, and the revision of its row.
   * @throws BridgeError ERR_SIGNAL_UNKNOWN
   */
  async get(id: string): Promise<{ readonly dead: DeadLetter; readonly revision: number }> {
    const entry = await this.#options.state.get(['signals', 'dead', id]);
    if (entry === undefined) throw unknownDeadLetterError();
    return { dead: unpackSignal(deadRow.decode(entry)), revision: entry.revision };
  }

  /**
   * Converts a record to a dead letter. Returns the dead letter and the store operations that add
   * it.
   */
  operations(record: OutboxRecord & Pick<DeadLetter, 'httpStatus' | 'project' | 'reason'>): {
    readonly dead: DeadLetter;
    readonly operations: readonly StateOperation[];
  } {
    const { keepMs, now } = this.#options;
    const dead: DeadLetter = { ...record, endedAt: now() };
    const value = deadRow.encode(packRecord(dead));
    return { dead, operations: this.#ids.put(dead, value, dead.endedAt + keepMs) };
  }

  async remove(id: string): Promise<void> {
    await this.#options.state.write([{ op: 'delete', key: ['signals', 'dead', id] }]);
    this.#ids.remove(id);
  }

  /**
   * Removes a dead letter.
   * @param revision - revision of its row when the caller read it
   * @param besides - store operations that are executed in the same transaction
   * @throws BridgeError ERR_SIGNAL_UNKNOWN if another caller has removed or changed the dead letter
   * since then. Nothing is written in this case
   */
  async take(id: string, revision: number, besides: readonly StateOperation[]): Promise<void> {
    const deleted = { op: 'delete', key: ['signals', 'dead', id], ifRevision: revision } as const;
    try {
      await this.#options.state.write([deleted, ...besides]);
    } catch (error) {
      throw isConflict(error) ? unknownDeadLetterError() : error;
    }
    this.#ids.remove(id);
  }
}

function unknownDeadLetterError(): BridgeError {
  return new BridgeError(
    'ERR_SIGNAL_UNKNOWN',
    'no failed signal has this id; signals that are still pending are retried automatically',
  );
}
