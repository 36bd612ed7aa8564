/** Formats of the stored rows of the outbox, and of dead letters. */

import Type from 'typebox';
import { parseExactJson } from '#master';
import { writeJson } from '#runtime';
import { Bytes, defineRow, type Entry, fromJson, type RowOf } from '#store';
import type { Signal } from './signal.ts';

const Text = Type.String();

const Time = Type.Number();

const recordFields = {
  /** Unique id of the signal. It never changes. */
  id: Text,
  alias: Text,
  /** Id of the handle. Absent while the signal is held, because no handle is registered yet. */
  handle: Type.Optional(Text),
  /**
   * Sequence number. Signals are numbered in the order of their acceptance, and delivered to a
   * handle in this order.
   */
  sequence: Type.Number(),
  minion: Text,
  member: Type.Optional(Text),
  /** Stack whose quota the signal uses. Absent while no handle is registered for the signal. */
  stack: Type.Optional(Text),
  /** Owner of the handle. */
  owner: Type.Optional(Text),
  /**
   * Fingerprint of the key that the minion had when it sent the signal. Present while the signal is
   * held.
   */
  heldKey: Type.Optional(Text),
  /**
   * `true` if the event had no data, otherwise absent. If it is `true`, `signal` is a FAILURE whose
   * reason states that the data is missing. If a handle with `emptyIsSuccess: true` is assigned
   * later, SUCCESS replaces this FAILURE.
   */
  isEmpty: Type.Optional(Type.Literal(true)),
  /**
   * Signal as JSON text. It is parsed only when the signal is delivered. A starting master
   * therefore does not parse data from minions.
   */
  signal: Bytes,
  /** Time of the acceptance, in milliseconds since 1970. */
  acceptedAt: Time,
};

/** Format of the rows with the keys `signals/outbox/<alias>/<sequence>`. */
export const outboxRow = defineRow({
  name: 'signal',
  schema: Type.Object(recordFields),
  unversioned,
});

/** Format of the rows with the keys `signals/dead/<id>`. */
export const deadRow = defineRow({
  name: 'dead letter',
  schema: Type.Object({
    ...recordFields,
    /** Project of the minion, if the handle has no owner or no handle was registered. */
    project: Type.Optional(Text),
    reason: Text,
    /** HTTP status of the last response. Absent if the service has not responded. */
    httpStatus: Type.Optional(Type.Number()),
    /** Time at which the signal failed, in milliseconds since 1970. */
    endedAt: Time,
  }),
  unversioned,
});

/** Accepted signal, as it is stored. */
export interface OutboxRecord extends Omit<RowOf<typeof outboxRow>, 'signal'> {
  readonly signal: Signal;
}

/** Dead letter: a signal that will not be delivered, with the reason. */
export interface DeadLetter extends Omit<RowOf<typeof deadRow>, 'signal'> {
  readonly signal: Signal;
}

/**
 * Decodes a row that an early version of this program wrote. The row has two lines of JSON: the
 * fields of the record, and the signal. The earliest rows have only one line, which contains both.
 */
function unversioned(bytes: Uint8Array): unknown {
  const row = Buffer.from(bytes);
  const end = row.indexOf('\n');
  if (end !== -1)
    return { ...Object(fromJson(row.subarray(0, end))), signal: row.subarray(end + 1) };
  const { signal, ...head } = Object(parseExactJson(row.toString('utf8')));
  return { ...head, signal: packSignal(signal) };
}

export function packSignal(signal: Signal): Uint8Array {
  return Buffer.from(writeJson(signal));
}

export function unpackSignal<R extends { readonly signal: Uint8Array }>({
  signal,
  ...row
}: R): Omit<R, 'signal'> & { readonly signal: Signal } {
  const text = Buffer.from(signal).toString('utf8');
  return { ...row, signal: parseExactJson(text) as Signal }; // validated by parseSignal when it was accepted
}

/** Encodes a record for the outbox. */
export function encodeRecord(record: OutboxRecord): Uint8Array {
  return outboxRow.encode({ ...record, signal: packSignal(record.signal) });
}

/**
 * Decodes a row of the outbox.
 * @throws StoreError ERR_STORE_CORRUPT
 */
export function decodeRecord(entry: Pick<Entry, 'key' | 'value'>): OutboxRecord {
  return unpackSignal(outboxRow.decode(entry));
}
