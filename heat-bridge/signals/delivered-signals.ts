/** Signals that were delivered lately. */

import type { SharedArea, StateOperation } from '#master';
import { defineRow, fromJson } from '#store';
import { AgedIds } from './aged-ids.ts';
import { type OutboxEntry, OutboxEntrySchema, outboxEntryOf } from './outbox-entry.ts';
import type { OutboxRecord } from './outbox-records.ts';

/** How long a delivered signal is listed, milliseconds. */
const deliveredTtlMs = 86_400_000;

/** More than an operator reads; the oldest go. */
const maxDelivered = 10_000;

/** The signals that were delivered, for a day, without what the guest said. */
export class DeliveredList {
  readonly #state: SharedArea;
  readonly #now: () => number;
  readonly #ids = new AgedIds();

  private constructor(state: SharedArea, now: () => number) {
    this.#state = state;
    this.#now = now;
  }

  static async open(state: SharedArea, now: () => number): Promise<DeliveredList> {
    const delivered = new DeliveredList(state, now);
    await delivered.#ids.follow(state, 'delivered');
    return delivered;
  }

  /** Those that were delivered last come first. @throws StoreError ERR_STORE_CORRUPT */
  async list(): Promise<readonly OutboxEntry[]> {
    const entries: OutboxEntry[] = [];
    for await (const entry of this.#state.list(['signals', 'delivered'])) {
      entries.push(deliveredRow.decode(entry));
    }
    return entries.sort((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0));
  }

  /** What keeps it, for the transaction that takes it out of the outbox. */
  operations(record: OutboxRecord, httpStatus: number | undefined): readonly StateOperation[] {
    const endedAt = this.#now();
    const entry = outboxEntryOf(record, 'delivered', { httpStatus, endedAt });
    const expiresAt = endedAt + deliveredTtlMs;
    const put = {
      op: 'put',
      key: ['signals', 'delivered', record.id],
      value: deliveredRow.encode(entry),
      expiresAt,
    } as const;
    this.#ids.add(record.id, expiresAt);
    const oldest = this.#ids.dropOldest(maxDelivered);
    if (oldest === undefined) return [put];
    return [put, { op: 'delete', key: ['signals', 'delivered', oldest] }];
  }
}

/** Rows `signals/delivered/<id>`. */
const deliveredRow = defineRow({
  name: 'delivered signal',
  schema: OutboxEntrySchema,
  unversioned: fromJson,
});
