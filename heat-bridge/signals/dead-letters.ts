/** The signals that will not be delivered, with the reason, for an operator to look at. */
import type { StateArea, StateOperation } from '../../master/index.ts';
import { BridgeError } from '../errors.ts';
import { type DeadRecord, type OutboxRecord, packRecord, unpackRecord } from './outbox-record.ts';

/** More than an operator reads; the oldest go. */
const mostLetters = 10_000;

export interface DeadLettersOptions {
  readonly state: StateArea;
  /** How long they are kept, milliseconds. */
  readonly keepMs: number;
  readonly now: () => number;
}

/** See above. */
export class DeadLetters {
  readonly #options: DeadLettersOptions;
  /** By age. */
  readonly #ids = new Set<string>();

  private constructor(options: DeadLettersOptions) {
    this.#options = options;
  }

  static async open(options: DeadLettersOptions): Promise<DeadLetters> {
    const letters = new DeadLetters(options);
    for (const { id } of await letters.list()) letters.#ids.add(id);
    return letters;
  }

  /** Those that ended first come first. */
  async list(): Promise<readonly DeadRecord[]> {
    const records: DeadRecord[] = [];
    for await (const { value } of this.#options.state.list(['signals', 'dead'])) {
      records.push(unpackRecord<DeadRecord>(value));
    }
    return records.sort((a, b) => a.endedAt - b.endedAt);
  }

  /** @throws BridgeError ERR_SIGNAL_UNKNOWN */
  async get(id: string): Promise<DeadRecord> {
    const entry = await this.#options.state.get(['signals', 'dead', id]);
    if (entry === undefined) {
      throw new BridgeError(
        'ERR_SIGNAL_UNKNOWN',
        'the dead-letter list has no signal of this id; those that wait are tried again anyway',
      );
    }
    return unpackRecord<DeadRecord>(entry.value);
  }

  /** @param besides - done in the same transaction */
  async add(
    record: OutboxRecord & { readonly reason: string },
    besides: readonly StateOperation[],
  ): Promise<DeadRecord> {
    const { state, keepMs, now } = this.#options;
    const dead: DeadRecord = { ...record, endedAt: now() };
    const put = {
      op: 'put',
      key: ['signals', 'dead', record.id],
      value: packRecord(dead),
      expiresAt: now() + keepMs,
    } as const;
    this.#ids.add(record.id);
    await state.write([...besides, put, ...this.#dropOldest()]);
    return dead;
  }

  /** @param besides - done in the same transaction */
  async remove(id: string, besides: readonly StateOperation[] = []): Promise<void> {
    await this.#options.state.write([{ op: 'delete', key: ['signals', 'dead', id] }, ...besides]);
    this.#ids.delete(id);
  }

  #dropOldest(): StateOperation[] {
    const [oldest] = this.#ids;
    if (this.#ids.size <= mostLetters || oldest === undefined) return [];
    this.#ids.delete(oldest);
    return [{ op: 'delete', key: ['signals', 'dead', oldest] }];
  }
}
