/** Rows of the outbox and of dead letters. */

import Type from 'typebox';
import { parseJson, writeJson } from '#runtime';
import { Bytes, defineRow, type Entry, fromJson, type RowOf } from '#store';
import type { Signal } from './signal.ts';

const Text = Type.String();

const Time = Type.Number();

const recordFields = {
  /** Its own name, the same wherever it goes. */
  id: Text,
  alias: Text,
  /** The id of the handle. Absent: none of this alias is registered for the minion yet. */
  handle: Type.Optional(Text),
  /** The order within the handle: the order in which signals were accepted. */
  sequence: Type.Number(),
  minion: Text,
  member: Type.Optional(Text),
  /** Whose quota it counts against; as long as there is no handle, its minion's alone. */
  stack: Type.Optional(Text),
  /** Whose handle it is for. */
  owner: Type.Optional(Text),
  /** Fingerprint of the key that the minion had, while it is held for a handle. */
  heldKey: Type.Optional(Text),
  /** Whether the event had no data: `signal` is then the FAILURE that says so. */
  isEmpty: Type.Optional(Type.Literal(true)),
  /** JSON, which is not read before it is needed: a start need not read what guests said. */
  signal: Bytes,
  /** Milliseconds since 1970. */
  acceptedAt: Time,
};

/** Rows `signals/outbox/<alias>/<sequence>`. */
export const outboxRow = defineRow({
  name: 'signal',
  schema: Type.Object(recordFields),
  unversioned,
});

/** Rows `signals/dead/<id>`. */
export const deadRow = defineRow({
  name: 'dead letter',
  schema: Type.Object({
    ...recordFields,
    reason: Text,
    /** What the service answered at last; absent: nothing came, or nobody was asked. */
    httpStatus: Type.Optional(Type.Number()),
    /** Milliseconds since 1970. */
    endedAt: Time,
  }),
  unversioned,
});

/** A signal that was accepted, as it lies in the store. */
export interface OutboxRecord extends Omit<RowOf<typeof outboxRow>, 'signal'> {
  readonly signal: Signal;
}

/** One that will not be delivered. */
export interface DeadLetter extends Omit<RowOf<typeof deadRow>, 'signal'> {
  readonly signal: Signal;
}

/** Reads two lines of JSON, the signal being the second; or one with the signal in it. */
function unversioned(bytes: Uint8Array): unknown {
  const row = Buffer.from(bytes);
  const end = row.indexOf('\n');
  if (end !== -1)
    return { ...Object(fromJson(row.subarray(0, end))), signal: row.subarray(end + 1) };
  const { signal, ...head } = Object(parseJson(row.toString('utf8')));
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
  return { ...row, signal: parseJson(text) as unknown as Signal }; // read by parseSignal before
}

/** Encodes a record for the outbox. */
export function encodeRecord(record: OutboxRecord): Uint8Array {
  return outboxRow.encode({ ...record, signal: packSignal(record.signal) });
}

/** @throws StoreError ERR_STORE_CORRUPT */
export function decodeRecord(entry: Pick<Entry, 'key' | 'value'>): OutboxRecord {
  return unpackSignal(outboxRow.decode(entry));
}
