/** Entry of the outbox in the form in which APIs return it. */

import Type, { type Static } from 'typebox';
import type { OutboxRecord, WithoutData } from './outbox-records.ts';

const Text = Type.String();
/** Time in milliseconds since 1970. */
const Time = Type.Number();

/** Entry of the outbox, without the data that the minion sent. */
export const OutboxEntrySchema = Type.Object({
  id: Text,
  alias: Text,
  minion: Text,
  member: Type.Optional(Text),
  /**
   * Heat stack to which the handle of this signal belongs. Absent while no handle is registered.
   */
  stack: Type.Optional(Text),
  owner: Type.Optional(Text),
  status: Type.Enum(['FAILURE', 'SUCCESS']),
  /**
   * State. `held`: no handle is registered yet. `waiting`: waits for its turn or for a retry.
   * `sending`: a request is in progress. `delivered`: the service has accepted the signal. `dead`:
   * the signal will not be delivered.
   */
  state: Type.Enum(['dead', 'delivered', 'held', 'sending', 'waiting']),
  acceptedAt: Time,
  /** Number of failed attempts since this process started. */
  failures: Type.Number(),
  /**
   * Reason why the last attempt failed, or why the signal failed permanently. It usually contains
   * the error text of the service.
   */
  reason: Type.Optional(Text),
  /** HTTP status of the last response. Absent if the service has not responded. */
  httpStatus: Type.Optional(Type.Number()),
  /** Time at which the signal was delivered or failed permanently. */
  endedAt: Type.Optional(Time),
});

/** Entry of the outbox; {@link OutboxEntrySchema} documents its fields. */
export type OutboxEntry = Readonly<Static<typeof OutboxEntrySchema>>;

export function outboxEntryOf(
  record: WithoutData<OutboxRecord>,
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
