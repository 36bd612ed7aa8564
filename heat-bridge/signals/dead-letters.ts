/** Dead-letter list: signals that failed permanently. */

import type { SharedArea, StateOperation } from '#master';
import type { LimitValues } from '#runtime';
import { isConflict } from '#store';
import { BridgeError } from '../errors.ts';
import { bridgeLimits } from '../limits.ts';
import { AgedIds } from './aged-ids.ts';
import { type OutboxEntry, outboxEntryOf } from './outbox-entry.ts';
import {
  type DeadLetter,
  deadRow,
  type OutboxRecord,
  packSignal,
  unpackSignal,
} from './outbox-records.ts';

export interface DeadLetterListOptions {
  readonly state: SharedArea;
  /** Time for which dead letters are stored, in milliseconds. */
  readonly keepMs: number;
  /**
   * Maximum number of dead letters per owner and in total. Default: 10,000 in total, without a
   * maximum per owner.
   */
  readonly amounts?: LimitValues;
  readonly now: () => number;
}

/**
 * Signals that will not be delivered, with the reasons. Operators can inspect them, and send them
 * again. If there are more than 10,000, the owner with the most dead letters loses its oldest one.
 */
export class DeadLetterList {
  readonly #options: DeadLetterListOptions;
  readonly #ids: AgedIds;

  private constructor(options: DeadLetterListOptions) {
    this.#options = options;
    const { amounts } = options;
    const limit = bridgeLimits.deadLetters;
    this.#ids = new AgedIds({
      part: 'dead',
      limit,
      amounts,
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

  /** Returns the dead letters, in the order in which they failed. */
  async list(): Promise<readonly DeadLetter[]> {
    const records: DeadLetter[] = [];
    for await (const entry of this.#options.state.list(['signals', 'dead'])) {
      records.push(unpackSignal(deadRow.decode(entry)));
    }
    return records.sort((a, b) => a.endedAt - b.endedAt);
  }

  /**
   * Returns dead letters from these minions for which no handle was registered, the oldest first.
   * Reads only these dead letters from the store.
   * @param most - maximum number. If there are more, returns only the latest ones
   */
  async unclaimedOf(minions: ReadonlySet<string>, most: number): Promise<readonly OutboxEntry[]> {
    const entries: OutboxEntry[] = [];
    for (const id of this.#ids.unclaimedOf(minions, most)) {
      const entry = await this.#options.state.get(['signals', 'dead', id]);
      if (entry === undefined) continue;
      const dead = unpackSignal(deadRow.decode(entry));
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
    const value = deadRow.encode({ ...dead, signal: packSignal(dead.signal) });
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
