/** An entry of the outbox as users see it. */

import type { OutboxRecord } from './outbox-records.ts';
import type { Signal } from './signal.ts';

/** An entry of the outbox as people see it, without what the guest said. */
export interface OutboxEntry {
  readonly id: string;
  readonly alias: string;
  readonly minion: string;
  readonly member?: string;
  /** Of its handle; `undefined`: none is registered for it yet. */
  readonly stack?: string;
  readonly owner?: string;
  readonly status: Signal['status'];
  /**
   * `held` until a handle is registered for it, `waiting` for its turn or another try, `sending`
   * now, `delivered`, or `dead`: it is over.
   */
  readonly state: 'dead' | 'delivered' | 'held' | 'sending' | 'waiting';
  /** Milliseconds since 1970. */
  readonly acceptedAt: number;
  /** Tries that failed since this process started. */
  readonly failures: number;
  /** Why the last try failed, or why it is over: mostly the service's own words. */
  readonly reason?: string;
  /** What the service answered to the last try; absent: nothing came, or nobody was asked yet. */
  readonly httpStatus?: number;
  /** When it was over, milliseconds since 1970. */
  readonly endedAt?: number;
}

export function outboxEntryOf(
  record: OutboxRecord,
  state: OutboxEntry['state'],
  more: {
    readonly failures?: number;
    readonly reason?: string | undefined;
    readonly httpStatus?: number | undefined;
    readonly endedAt?: number;
  } = {},
): OutboxEntry {
  const { id, alias, minion, member, stack, owner, signal, acceptedAt } = record;
  return {
    id,
    alias,
    minion,
    ...(member === undefined ? {} : { member }),
    ...(stack === undefined ? {} : { stack }),
    ...(owner === undefined ? {} : { owner }),
    status: signal.status,
    state,
    acceptedAt,
    failures: more.failures ?? 0,
    ...(more.reason === undefined ? {} : { reason: more.reason }),
    ...(more.httpStatus === undefined ? {} : { httpStatus: more.httpStatus }),
    ...(more.endedAt === undefined ? {} : { endedAt: more.endedAt }),
  };
}
