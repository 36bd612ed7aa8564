/** An entry of the outbox for users. */

import Type, { type Static } from 'typebox';
import type { OutboxRecord } from './outbox-records.ts';

const Text = Type.String();
/** Milliseconds since 1970. */
const Time = Type.Number();

/** An entry of the outbox, without what the guest said. */
export const OutboxEntrySchema = Type.Object({
  id: Text,
  alias: Text,
  minion: Text,
  member: Type.Optional(Text),
  /** Stack of its handle. Absent: no handle is registered for it yet. */
  stack: Type.Optional(Text),
  owner: Type.Optional(Text),
  status: Type.Enum(['FAILURE', 'SUCCESS']),
  /**
   * `held` until a handle is registered for it, `waiting` for its turn or another try, `sending`
   * now, `delivered`, or `dead`: it is over.
   */
  state: Type.Enum(['dead', 'delivered', 'held', 'sending', 'waiting']),
  acceptedAt: Time,
  /** Number of failed tries since this process started. */
  failures: Type.Number(),
  /** Reason of the last failure, or of the end: mostly the service's own words. */
  reason: Type.Optional(Text),
  /** Status of the last answer of the service. Absent: no answer came, or it was not asked yet. */
  httpStatus: Type.Optional(Type.Number()),
  /** Time of the end. */
  endedAt: Type.Optional(Time),
});

/** An entry of the outbox; {@link OutboxEntrySchema} documents its fields. */
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
