/** List of signals that were delivered recently. */

import type { SharedArea, StateOperation } from '#master';
import { defineRow, fromJson } from '#store';
import { bridgeLimits } from '../limits.ts';
import { AgedIds } from './aged-ids.ts';
import { type OutboxEntry, OutboxEntrySchema, outboxEntryOf } from './outbox-entry.ts';
import type { OutboxRecord } from './outbox-records.ts';

/** Time for which a delivered signal is listed, in milliseconds. */
const deliveredTtlMs = 86_400_000;

/**
 * Signals that were delivered within the last 24 hours, without their data. If there are more than
 * 10,000, the owner with the most signals in the list loses its oldest one.
 */
export class DeliveredList {
  readonly #state: SharedArea;
  readonly #now: () => number;
  readonly #ids = new AgedIds({
    part: 'delivered',
    limit: bridgeLimits.deliveredSignals,
    decode: (entry) => deliveredRow.decode(entry),
  });

  private constructor(state: SharedArea, now: () => number) {
    this.#state = state;
    this.#now = now;
  }

  static async open(state: SharedArea, now: () => number): Promise<DeliveredList> {
    const delivered = new DeliveredList(state, now);
    await delivered.#ids.follow(state);
    return delivered;
  }

  /**
   * Returns the delivered signals, the latest first.
   * @throws StoreError ERR_STORE_CORRUPT
   */
  async list(): Promise<readonly OutboxEntry[]> {
    const entries: OutboxEntry[] = [];
    for await (const entry of this.#state.list(['signals', 'delivered'])) {
      entries.push(deliveredRow.decode(entry));
    }
    return entries.sort((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0));
  }

  /**
   * Returns the store operations that add a delivered signal. They must be part of the transaction
   * that removes the signal from the outbox.
   */
  operations(record: OutboxRecord, httpStatus: number | undefined): readonly StateOperation[] {
    const endedAt = this.#now();
    const entry = outboxEntryOf(record, 'delivered', { httpStatus, endedAt });
    return this.#ids.put(record, deliveredRow.encode(entry), endedAt + deliveredTtlMs);
  }
}

/** Format of the rows with the keys `signals/delivered/<id>`. */
const deliveredRow = defineRow({
  name: 'delivered signal',
  schema: OutboxEntrySchema,
  unversioned: fromJson,
});
