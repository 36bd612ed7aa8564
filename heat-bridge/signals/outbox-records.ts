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
  /**
   * Status of the signal, so that a list of signals does not parse `signal`. Absent in rows that an
   * early version of this program wrote.
   */
  status: Type.Optional(Type.Enum(['FAILURE', 'SUCCESS'])),
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
export interface OutboxRecord extends Omit<RowOf<typeof outboxRow>, 'signal' | 'status'> {
  readonly signal: Signal;
}

/** Dead letter: a signal that will not be delivered, with the reason. */
export interface DeadLetter extends Omit<RowOf<typeof deadRow>, 'signal' | 'status'> {
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

function packSignal(signal: Signal): Uint8Array {
  return Buffer.from(writeJson(signal));
}

/** Converts a record or a dead letter to the fields of its row. */
export function packRecord<R extends { readonly signal: Signal }>(
  record: R,
): Omit<R, 'signal'> & { readonly signal: Uint8Array; readonly status: Signal['status'] } {
  const { signal } = record;
  return { ...record, signal: packSignal(signal), status: signal.status };
}

interface PackedSignal {
  readonly signal: Uint8Array;
  readonly status?: Signal['status'] | undefined;
}

export function unpackSignal<R extends PackedSignal>({
  signal,
  status: _status,
  ...row
}: R): Omit<R, 'signal' | 'status'> & { readonly signal: Signal } {
  const text = Buffer.from(signal).toString('utf8');
  return { ...row, signal: parseExactJson(text) as Signal }; // validated by parseSignal when it was accepted
}

/** Record without the reason and the data of its signal. */
export type WithoutData<R extends { readonly signal: Signal }> = Omit<R, 'signal'> & {
  readonly signal: Pick<Signal, 'status'>;
};

/**
 * Returns a row without the reason and the data of its signal. Does not parse the signal, unless an
 * early version of this program wrote the row.
 */
export function withoutData<R extends PackedSignal>(
  row: R,
): Omit<R, 'signal' | 'status'> & { readonly signal: Pick<Signal, 'status'> } {
  const { status, signal: _signal, ...rest } = row;
  return { ...rest, signal: status === undefined ? unpackSignal(row).signal : { status } };
}

/** Work to read a byte of a row, in steps of a `WorkBudget`, if its signal is parsed. */
const stepsPerByte = 4;
/** Work to read a row with a small signal, in steps of a `WorkBudget`. */
const stepsPerRow = 1_000;

/** Returns the work to read a row and to parse its signal, in steps of a `WorkBudget`. */
export function stepsOfRow(bytes: number): number {
  return stepsPerRow + bytes * stepsPerByte;
}

/** Encodes a record for the outbox. */
export function encodeRecord(record: OutboxRecord): Uint8Array {
  return outboxRow.encode(packRecord(record));
}

/**
 * Decodes a row of the outbox.
 * @throws StoreError ERR_STORE_CORRUPT
 */
export function decodeRecord(entry: Pick<Entry, 'key' | 'value'>): OutboxRecord {
  return unpackSignal(outboxRow.decode(entry));
}
