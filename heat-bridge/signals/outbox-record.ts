/** What the outbox holds. */
import { parseJson, writeJson } from '../../runtime/index.ts';
import type { Signal } from './signal.ts';

/** A signal that was accepted, as it lies in the store. */
export interface OutboxRecord {
  /** Its own name, the same wherever it goes. */
  readonly id: string;
  readonly alias: string;
  /** The id of the handle; `undefined`: none of this alias is registered for the minion yet. */
  readonly handle?: string;
  /** The order within the handle: the order in which signals were accepted. */
  readonly sequence: number;
  readonly minion: string;
  readonly member?: string;
  /** Whose quota it counts against; as long as there is no handle, its minion's alone. */
  readonly stack?: string;
  /** Whose handle it is for. */
  readonly owner?: string;
  /** Fingerprint of the key that the minion had, while it is held for a handle. */
  readonly heldKey?: string;
  readonly signal: Signal;
  /** Milliseconds since 1970. */
  readonly acceptedAt: number;
}

/** One that will not be delivered. */
export interface DeadRecord extends OutboxRecord {
  readonly reason: string;
  /** Milliseconds since 1970. */
  readonly endedAt: number;
}

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
   * now, or `dead`: it is over.
   */
  readonly state: 'dead' | 'held' | 'sending' | 'waiting';
  /** Milliseconds since 1970. */
  readonly acceptedAt: number;
  /** Tries that failed since this process started. */
  readonly failures: number;
  /** Why the last try failed, or why it is over: mostly the service's own words. */
  readonly reason?: string;
}

export function packRecord(record: OutboxRecord): Uint8Array {
  return Buffer.from(writeJson(record));
}

export function unpackRecord<T extends OutboxRecord>(bytes: Uint8Array): T {
  return parseJson(Buffer.from(bytes).toString('utf8')) as unknown as T; // packed by packRecord
}

export function entryOf(
  record: OutboxRecord,
  state: OutboxEntry['state'],
  more: { readonly failures?: number; readonly reason?: string | undefined } = {},
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
  };
}
