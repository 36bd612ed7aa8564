/** Outbox entry as users see it. */

import Type, { type Static } from 'typebox';
import type { OutboxRecord } from './outbox-records.ts';

const Text = Type.String();
/** Milliseconds since 1970. */
const Time = Type.Number();

/** Entry of the outbox, without the guest's data. */
export const OutboxEntrySchema = Type.Object({
  id: Text,
  alias: Text,
  minion: Text,
  member: Type.Optional(Text),
  /** Stack of its handle. Absent until a handle is registered. */
  stack: Type.Optional(Text),
  owner: Type.Optional(Text),
  status: Type.Enum(['FAILURE', 'SUCCESS']),
  /**
   * State: `held` until a handle is registered, `waiting` for its turn or a retry, `sending`,
   * `delivered`, or `dead` (will not be delivered).
   */
  state: Type.Enum(['dead', 'delivered', 'held', 'sending', 'waiting']),
  acceptedAt: Time,
  /** Number of failed attempts since this process started. */
  failures: Type.Number(),
  /** Reason of the last failure or of the final state, usually in the service's words. */
  reason: Type.Optional(Text),
  /** HTTP status of the service's last reply. Absent if the service has not replied. */
  httpStatus: Type.Optional(Type.Number()),
  /** Time at which the signal was delivered or became dead. */
  endedAt: Type.Optional(Time),
});

/** Entry of the outbox; {@link OutboxEntrySchema} documents its fields. */
export type OutboxEntry = Readonly<Static<typeof OutboxEntrySchema>>;

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
