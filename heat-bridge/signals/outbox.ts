/** Signals that were accepted and are not delivered yet: durable, and sealed. */

import { createHash, randomInt, randomUUID } from 'node:crypto';
import type { SharedArea, StateChange, StateOperation } from '#master';
import { BridgeError } from '../errors.ts';
import { DeadLetterList, isConflict } from './dead-letters.ts';
import { DeliveredList } from './delivered-signals.ts';
import type { HandleInfo } from './handles.ts';
import {
  type FullQuota,
  type OutboxQuotaOptions,
  OutboxQuotas,
  type QuotaUse,
} from './outbox-quotas.ts';
import {
  type DeadLetter,
  decodeRecord,
  encodeRecord,
  type OutboxRecord,
  outboxRow,
} from './outbox-records.ts';
import { emptySuccess } from './signal.ts';

/** A signal before it is accepted. */
export type NewRecord = Omit<OutboxRecord, 'acceptedAt' | 'id' | 'sequence'>;

/** The request that brought a signal, and the place of the signal in it. */
export interface RequestReference {
  readonly request: string;
  readonly place: number;
}

/** A record in memory: what it takes to find it, and to give its room back. */
export interface PendingSignal {
  readonly id: string;
  readonly alias: string;
  /** The id of the handle; `undefined`: it is held until one is registered. */
  readonly handle: string | undefined;
  readonly sequence: number;
  readonly minion: string;
  readonly member: string | undefined;
  readonly stack: string | undefined;
  readonly owner: string | undefined;
  readonly acceptedAt: number;
  readonly bytes: number;
  /** Whether it is in the store; no try before that. */
  readonly isWritten: Promise<boolean>;
}

/** What became of a signal that was to be accepted. */
export type AcceptResult =
  | { readonly kind: 'accepted'; readonly id: string }
  /** It was, when the same request came before. */
  | { readonly kind: 'repeated'; readonly id: string }
  | { readonly kind: 'full'; readonly quota: FullQuota };

export interface OutboxOptions {
  readonly state: SharedArea;
  readonly quotas: OutboxQuotaOptions;
  /** As long as a request that was sent once can come again, milliseconds. */
  readonly keepMarksMs: number;
  /** How long what is over is kept, milliseconds. */
  readonly deadLetterTtlMs: number;
  readonly now: () => number;
}

/** Takes the signals of an outbox as they come. */
export interface PendingSignals {
  /**
   * Of each record, in the order of acceptance: before it is in the store, and in a cluster when it
   * is, whichever member accepted it.
   */
  add(pending: PendingSignal): void;
  /** Of each that another member has given to a handle, dropped or ended. */
  forget(pending: PendingSignal): void;
}

/** A row of the outbox in the store of a cluster. */
interface FollowedRow {
  readonly id: string;
  /** Rows have the order of the log by it. */
  readonly revision: number;
}

/** Numbers of a millisecond. */
const ticks = 1000;

const writtenBefore = Promise.resolve(true);

/**
 * The signals that were accepted and are not over: in the store, written before the guest is
 * answered, and by name in memory. What is written together is all there after a crash, or not at all.
 *
 * The members of a cluster have one outbox. Each follows what the others write, and each may accept,
 * drop and requeue signals; what comes of a delivery is written under the lease of who delivers.
 */
export class Outbox {
  readonly dead: DeadLetterList;
  readonly delivered: DeliveredList;
  readonly #options: OutboxOptions;
  readonly #quotas: OutboxQuotas;
  readonly #pending = new Map<string, PendingSignal>();
  /** Of the rows that there are, by {@link rowName}; empty where no other master writes them. */
  readonly #rows = new Map<string, FollowedRow>();
  #consumer: PendingSignals | undefined;
  #lastSequence = 0;

  private constructor(options: OutboxOptions, dead: DeadLetterList, delivered: DeliveredList) {
    this.#options = options;
    this.dead = dead;
    this.delivered = delivered;
    this.#quotas = new OutboxQuotas(options.quotas);
  }

  /** With what a process before this one left. */
  static async open(options: OutboxOptions): Promise<Outbox> {
    const { state, deadLetterTtlMs, now } = options;
    const dead = await DeadLetterList.open({ state, keepMs: deadLetterTtlMs, now });
    const delivered = await DeliveredList.open(state, now);
    const outbox = new Outbox(options, dead, delivered);
    await state.follow(['signals', 'outbox'], (change) => outbox.#note(change));
    return outbox;
  }

  /** Other members write here too: what is in the store is known by following it. */
  get #isFollowed(): boolean {
    return this.#options.state.cluster !== undefined;
  }

  /** All that is not over, the oldest first; in a cluster in the order of its log. */
  get pending(): readonly PendingSignal[] {
    const all = [...this.#pending.values()];
    if (!this.#isFollowed) return all.sort((a, b) => a.sequence - b.sequence);
    const placed = all.flatMap((pending) => {
      const row = this.#rows.get(rowName(pending));
      return row === undefined ? [] : { pending, revision: row.revision };
    });
    return placed.sort((a, b) => a.revision - b.revision).map(({ pending }) => pending);
  }

  /** How many are not over, and since when the oldest of them waits: milliseconds since 1970. */
  figures(): { readonly waiting: number; readonly held: number; readonly since?: number } {
    let held = 0;
    let since = Number.POSITIVE_INFINITY;
    for (const { handle, acceptedAt } of this.#pending.values()) {
      if (handle === undefined) held += 1;
      since = Math.min(since, acceptedAt);
    }
    const { size } = this.#pending;
    return { waiting: size - held, held, ...(size === 0 ? {} : { since }) };
  }

  /** Gives what is accepted from now on to who delivers it. */
  set consumer(consumer: PendingSignals) {
    this.#consumer = consumer;
  }

  /** Accepts a signal; durable when it resolves. @throws StoreError when it cannot be kept */
  async accept(fresh: NewRecord, mark: RequestReference | undefined): Promise<AcceptResult> {
    const key = mark === undefined ? undefined : requestKey(fresh.minion, mark);
    const id = mark === undefined ? randomUUID() : signalIdOf(fresh, mark);
    if (key !== undefined && (await this.#options.state.get(key)) !== undefined) {
      return { kind: 'repeated', id };
    }
    const sequence = this.#nextSequence();
    const record = { ...fresh, id, sequence, acceptedAt: this.#options.now() };
    // The same request is under way.
    if (await this.#pending.get(id)?.isWritten) return { kind: 'repeated', id };
    const value = encodeRecord(record);
    const quota = this.#quotas.tryTake({ ...fresh, bytes: value.length });
    if (quota !== undefined) return { kind: 'full', quota };
    const result = await this.#write(record, value, key);
    // Another member took the same request, or gave the same number, in the same moment.
    return result ?? this.accept(fresh, mark);
  }

  /** The whole record. */
  async read({ alias, sequence }: PendingSignal): Promise<OutboxRecord | undefined> {
    const entry = await this.#options.state.get(recordKey(alias, sequence));
    return entry && decodeRecord(entry);
  }

  /** It is dropped; durable when it resolves. */
  async remove(pending: PendingSignal): Promise<void> {
    await this.#options.state.write([this.#deletion(pending)]);
    this.#forget(pending);
  }

  /** It is delivered; durable when it resolves. @throws StoreError ERR_REVISION as {@link #settle} */
  markDelivered(
    pending: PendingSignal,
    record: OutboxRecord,
    httpStatus: number | undefined,
  ): Promise<void> {
    return this.#settle(pending, this.delivered.operations(record, httpStatus));
  }

  /**
   * It will not be delivered; durable when it resolves.
   * @throws StoreError ERR_REVISION as {@link #settle}
   */
  async moveToDeadLetter(
    pending: PendingSignal,
    record: OutboxRecord,
    reason: string,
    httpStatus?: number,
  ): Promise<DeadLetter> {
    const why = { reason, ...(httpStatus === undefined ? {} : { httpStatus }) };
    const { dead, operations } = this.dead.operations({ ...record, ...why });
    await this.#settle(pending, operations);
    return dead;
  }

  /** As {@link moveToDeadLetter}. @returns whether nobody else has taken it out before */
  async moveIfThere(
    pending: PendingSignal,
    record: OutboxRecord,
    reason: string,
  ): Promise<boolean> {
    try {
      await this.moveToDeadLetter(pending, record, reason);
      return true;
    } catch (error) {
      if (!isConflict(error)) throw error;
      return false;
    }
  }

  /**
   * Takes a record out of the outbox, with what became of it.
   * @throws StoreError ERR_REVISION where another member of the cluster delivers by now, or has
   * taken it out: nothing was written
   */
  async #settle(pending: PendingSignal, operations: readonly StateOperation[]): Promise<void> {
    const { state } = this.#options;
    const all = [this.#deletion(pending), ...operations];
    if (state.cluster === undefined || pending.handle === undefined) {
      await state.write(all);
    } else {
      await state.cluster.writeHeld(all);
    }
    this.#forget(pending);
  }

  /** In a cluster, of the row as it is known here. */
  #deletion(pending: PendingSignal): StateOperation {
    const { alias, sequence } = pending;
    const row = this.#rows.get(rowName(pending));
    const condition = row === undefined ? {} : { ifRevision: row.revision };
    return { op: 'delete', key: recordKey(alias, sequence), ...condition };
  }

  /**
   * Gives a record that was held to its handle; durable when it resolves.
   * @returns the quota of the handle that is full; the record stays as it was
   */
  async assign(
    pending: PendingSignal,
    held: OutboxRecord,
    handle: HandleInfo,
  ): Promise<FullQuota | undefined> {
    const record = assignToHandle(handle, held);
    const value = encodeRecord(record);
    const use = { ...record, bytes: value.length };
    this.#quotas.release(pending);
    const quota = this.#quotas.tryTake(use);
    if (quota !== undefined) {
      this.#quotas.take(pending);
      return quota;
    }
    const put = { op: 'put', key: recordKey(record.alias, record.sequence), value } as const;
    if (this.#isFollowed) {
      this.#countAgain(pending, use);
      await this.#writeIfSame(put, pending);
      return undefined;
    }
    try {
      await this.#options.state.write([put]);
    } catch (error) {
      this.#countAgain(pending, use);
      throw error;
    }
    this.#consumer?.add(this.#remember(record, value.length, writtenBefore));
    return undefined;
  }

  /** As before it was to be in the place of another record. */
  #countAgain(pending: PendingSignal, use: QuotaUse): void {
    this.#quotas.release(use);
    this.#quotas.take(pending);
  }

  /** Writes over a row, unless another member has. */
  async #writeIfSame(
    put: StateOperation & { readonly op: 'put' },
    pending: PendingSignal,
  ): Promise<void> {
    const ifRevision = this.#rows.get(rowName(pending))?.revision ?? 0;
    try {
      await this.#options.state.write([{ ...put, ifRevision }]);
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
  }

  /** Changes the signal of a record that is held; durable when it resolves. */
  async rewrite(pending: PendingSignal, record: OutboxRecord): Promise<void> {
    const key = recordKey(record.alias, record.sequence);
    const put = { op: 'put', key, value: encodeRecord(record) } as const;
    if (this.#isFollowed) await this.#writeIfSame(put, pending);
    else await this.#options.state.write([put]);
  }

  /**
   * Puts a record that was over behind the others of its handle; durable when it resolves.
   * @throws BridgeError ERR_SIGNAL_UNKNOWN, ERR_SIGNAL_QUOTA
   */
  async requeue(id: string, handle: HandleInfo): Promise<OutboxRecord> {
    const { dead, revision } = await this.dead.get(id);
    const { reason: _reason, httpStatus: _status, endedAt: _endedAt, ...old } = dead;
    const sequence = this.#nextSequence();
    const record: OutboxRecord = { ...assignToHandle(handle, old), sequence };
    const value = encodeRecord(record);
    const use = { ...record, bytes: value.length };
    const quota = this.#quotas.tryTake(use);
    if (quota !== undefined) {
      throw new BridgeError('ERR_SIGNAL_QUOTA', `the outbox is full (${quota}); try again later`);
    }
    // Counted where it is followed.
    if (this.#isFollowed) this.#quotas.release(use);
    const put = { op: 'put', key: recordKey(record.alias, sequence), value } as const;
    await this.dead.take(id, revision, [put]);
    if (!this.#isFollowed) this.#consumer?.add(this.#remember(record, value.length, writtenBefore));
    return record;
  }

  async #write(
    record: OutboxRecord,
    value: Uint8Array,
    mark: readonly string[] | undefined,
  ): Promise<AcceptResult | undefined> {
    const { state, keepMarksMs, now } = this.#options;
    const expiresAt = now() + keepMarksMs;
    const written = state.write([
      ...(mark === undefined
        ? []
        : [{ op: 'put', key: mark, value: new Uint8Array(0), expiresAt, ifRevision: 0 } as const]),
      {
        op: 'put',
        key: recordKey(record.alias, record.sequence),
        value,
        ...(this.#isFollowed ? { ifRevision: 0 } : {}),
      },
    ]);
    const isWritten = written.then(
      () => true,
      () => false,
    );
    const pending = this.#remember(record, value.length, isWritten);
    if (!this.#isFollowed) this.#consumer?.add(pending);
    try {
      await written;
      return { kind: 'accepted', id: record.id };
    } catch (error) {
      // What too few members have confirmed is there all the same.
      if (!this.#rows.has(rowName(pending))) this.#forget(pending);
      if (!isConflict(error)) throw error;
      return this.#isFollowed ? undefined : { kind: 'repeated', id: record.id };
    }
  }

  /** What is in the store; in a cluster also what any member makes of it, in the order of the log. */
  #note(change: StateChange): void {
    if (change.type === 'delete') {
      const name = change.key.slice(2).join('/');
      const row = this.#rows.get(name);
      this.#rows.delete(name);
      const gone = row && this.#pending.get(row.id);
      if (gone === undefined || rowName(gone) !== name) return;
      this.#forget(gone);
      this.#consumer?.forget(gone);
      return;
    }
    const { value, revision } = change.entry;
    const head = outboxRow.decode(change.entry);
    this.#lastSequence = Math.max(this.#lastSequence, head.sequence);
    const name = rowName(head);
    const isNew = !this.#rows.has(name);
    if (this.#isFollowed) this.#rows.set(name, { id: head.id, revision });
    const known = this.#pending.get(head.id);
    if (known !== undefined && rowName(known) === name && known.handle === head.handle) {
      if (isNew) this.#consumer?.add(known);
      return;
    }
    if (known !== undefined) {
      this.#forget(known);
      this.#consumer?.forget(known);
    }
    const pending = this.#remember(head, value.length, writtenBefore);
    this.#quotas.take(pending);
    this.#consumer?.add(pending);
  }

  /** By the clock, so that a number is not used again when the outbox was empty at the start. */
  #nextSequence(): number {
    const clock = this.#options.now() * ticks + (this.#isFollowed ? randomInt(ticks) : 0);
    this.#lastSequence = Math.max(this.#lastSequence + 1, clock);
    return this.#lastSequence;
  }

  #remember(
    head: Omit<OutboxRecord, 'signal'>,
    bytes: number,
    isWritten: Promise<boolean>,
  ): PendingSignal {
    const { id, alias, handle, sequence, minion, member, stack, owner, acceptedAt } = head;
    const pending: PendingSignal = {
      id,
      alias,
      handle,
      sequence,
      minion,
      member,
      stack,
      owner,
      acceptedAt,
      bytes,
      isWritten,
    };
    this.#pending.set(id, pending);
    return pending;
  }

  #forget(pending: PendingSignal): void {
    if (this.#pending.get(pending.id) !== pending) return;
    this.#pending.delete(pending.id);
    this.#quotas.release(pending);
  }
}

function assignToHandle(handle: HandleInfo, record: OutboxRecord): OutboxRecord {
  const { heldKey: _heldKey, ...rest } = record;
  const { id, stack, owner, emptyIsSuccess } = handle;
  const signal = record.isEmpty === true && emptyIsSuccess ? emptySuccess : record.signal;
  return { ...rest, signal, handle: id, stack, ...(owner === undefined ? {} : { owner }) };
}

/** Ids tell a signal from all others [THREATS B-04]; a request has the same ones each time. */
function signalIdOf({ alias, minion }: NewRecord, { request, place }: RequestReference): string {
  const text = JSON.stringify([alias, minion, request, place]);
  return createHash('sha256').update(text).digest('base64url').slice(0, 32);
}

function recordKey(alias: string, sequence: number): readonly string[] {
  return ['signals', 'outbox', alias, String(sequence).padStart(16, '0')];
}

/** An alias holds no slash. */
function rowName({ alias, sequence }: Pick<PendingSignal, 'alias' | 'sequence'>): string {
  return recordKey(alias, sequence).slice(2).join('/');
}

function requestKey(minion: string, { request, place }: RequestReference): readonly string[] {
  return ['signals', 'requests', minion, request, String(place)];
}
