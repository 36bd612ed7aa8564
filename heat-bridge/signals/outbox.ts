/**
 * Outbox: accepted signals that have neither been delivered nor failed permanently. They are stored
 * durably and encrypted.
 */

import { hash, randomInt, randomUUID } from 'node:crypto';
import type { SharedArea, StateChange, StateOperation } from '#master';
import { unlimitedSteps, WorkBudget } from '#runtime';
import { isConflict } from '#store';
import { BridgeError } from '../errors.ts';
import { DeadLetterList } from './dead-letters.ts';
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
  stepsOfRow,
  type WithoutData,
  withoutData,
} from './outbox-records.ts';
import { emptySuccess } from './signal.ts';

/** Record of a signal that the outbox has not accepted yet. */
export type NewRecord = Omit<OutboxRecord, 'acceptedAt' | 'id' | 'sequence'>;

/** Request that contained a signal, and the position of the signal in the request. */
export interface RequestReference {
  readonly request: string;
  readonly place: number;
}

/**
 * Pending signal in memory, without its data. The fields identify the stored record of the signal,
 * and the quotas that the signal counts towards.
 */
export interface PendingSignal {
  readonly id: string;
  readonly alias: string;
  /**
   * Id of the handle. `undefined` while the signal is held, because no handle is registered for it
   * yet.
   */
  readonly handle: string | undefined;
  readonly sequence: number;
  readonly minion: string;
  readonly member: string | undefined;
  readonly stack: string | undefined;
  readonly owner: string | undefined;
  readonly acceptedAt: number;
  readonly bytes: number;
  /**
   * Resolves to true when the record is stored, or to false if it could not be stored. Delivery
   * waits for this promise.
   */
  readonly isWritten: Promise<boolean>;
}

/** Result of accepting a signal. */
export type AcceptResult =
  | { readonly kind: 'accepted'; readonly id: string }
  /** The request was already accepted earlier, so nothing was added. */
  | { readonly kind: 'repeated'; readonly id: string }
  | { readonly kind: 'full'; readonly quota: FullQuota };

export interface OutboxOptions {
  readonly state: SharedArea;
  readonly quotas: OutboxQuotaOptions;
  /** Returns the project of a minion. Default: no minion belongs to a project. */
  readonly projectOf?: (minion: string) => string | undefined;
  /** Time for which repeated requests are recognized, in milliseconds. */
  readonly keepMarksMs: number;
  /** Time for which dead letters are stored, in milliseconds. */
  readonly deadLetterTtlMs: number;
  readonly now: () => number;
}

/** Receiver of pending signals. */
export interface PendingSignals {
  /**
   * Called for each accepted record, in order. Without a cluster, it is called before the record is
   * written. In a cluster, it is called after the write, and also for records of other members.
   */
  add(pending: PendingSignal): void;
  /**
   * Called for each record that is no longer pending. Another member has assigned the record to a
   * handle, removed it or delivered it.
   */
  forget(pending: PendingSignal): void;
}

/**
 * Signal id and revision of a stored row, as the replicated log of the cluster delivered it last.
 */
interface FollowedRow {
  readonly id: string;
  /** Revision of the row. It determines the row's position in the replicated log. */
  readonly revision: number;
}

/**
 * Number of sequence numbers that each millisecond provides. The number for a new signal is derived
 * from the time.
 */
const ticks = 1000;

const writtenBefore = Promise.resolve(true);

/**
 * Accepted signals that still wait for delivery. A signal is stored before its sender gets the
 * response. The data of signals are only in the store, not in memory. After a crash, the store
 * contains each transaction completely or not at all.
 *
 * The members of a cluster share one outbox, and apply each other's writes. Every member may
 * accept, remove and requeue signals. Only the member that currently delivers signals, the holder
 * of the lease, stores the results of deliveries.
 */
export class Outbox {
  readonly dead: DeadLetterList;
  readonly delivered: DeliveredList;
  readonly #options: OutboxOptions;
  readonly #quotas: OutboxQuotas;
  readonly #pending = new Map<string, PendingSignal>();
  /** Rows in the store, by {@link rowName}. Used only in a cluster. */
  readonly #rows = new Map<string, FollowedRow>();
  #consumer: PendingSignals | undefined;
  #lastSequence = 0;

  private constructor(options: OutboxOptions, dead: DeadLetterList, delivered: DeliveredList) {
    this.#options = options;
    this.dead = dead;
    this.delivered = delivered;
    this.#quotas = new OutboxQuotas(options.quotas, options.projectOf);
  }

  /** Opens the outbox with the stored signals. */
  static async open(options: OutboxOptions): Promise<Outbox> {
    const { state, deadLetterTtlMs, now } = options;
    const dead = await DeadLetterList.open({ state, keepMs: deadLetterTtlMs, now });
    const delivered = await DeliveredList.open(state, now);
    const outbox = new Outbox(options, dead, delivered);
    await state.follow(['signals', 'outbox'], (change) => outbox.#note(change));
    return outbox;
  }

  /**
   * Whether other members write to the outbox. If so, this member knows a row only after the
   * replicated log has delivered it.
   */
  get #isFollowed(): boolean {
    return this.#options.state.cluster !== undefined;
  }

  /**
   * Pending signals, the oldest first. In a cluster, they are in the order of the replicated log.
   */
  get pending(): readonly PendingSignal[] {
    return this.pendingOf(() => true);
  }

  /** Returns the pending signals that match a condition, in the order of {@link pending}. */
  pendingOf(isWanted: (pending: PendingSignal) => boolean): readonly PendingSignal[] {
    const all = [...this.#pending.values()].filter(isWanted);
    if (!this.#isFollowed) return all.sort((a, b) => a.sequence - b.sequence);
    const placed = all.flatMap((pending) => {
      const row = this.#rows.get(rowName(pending));
      return row === undefined ? [] : { pending, revision: row.revision };
    });
    return placed.sort((a, b) => a.revision - b.revision).map(({ pending }) => pending);
  }

  /**
   * Returns the numbers of waiting and held signals, and the time of the oldest signal in
   * milliseconds since 1970.
   */
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

  /** Sets the receiver of signals that are accepted from now on. */
  set consumer(consumer: PendingSignals) {
    this.#consumer = consumer;
  }

  /**
   * Accepts a signal. Resolves when it is durable.
   * @param mark - identifies the request that contained the signal. If this request is repeated,
   * its signal is not stored again
   * @throws StoreError if it cannot be stored
   */
  async accept(fresh: NewRecord, mark: RequestReference | undefined): Promise<AcceptResult> {
    const key = mark === undefined ? undefined : requestKey(fresh.minion, mark);
    const id = mark === undefined ? randomUUID() : signalIdOf(fresh, mark);
    if (key !== undefined && (await this.#options.state.get(key)) !== undefined) {
      return { kind: 'repeated', id };
    }
    const sequence = this.#nextSequence();
    const record = { ...fresh, id, sequence, acceptedAt: this.#options.now() };
    // If an earlier attempt of the same request is being stored, wait for it.
    if (await this.#pending.get(id)?.isWritten) return { kind: 'repeated', id };
    const value = encodeRecord(record);
    const quota = this.#quotas.tryTake({ ...fresh, bytes: value.length });
    if (quota !== undefined) return { kind: 'full', quota };
    const result = await this.#write(record, value, key);
    // Without a result, another member has stored the same request, or has used the same sequence
    // number.
    return result ?? this.accept(fresh, mark);
  }

  /**
   * Returns the complete record of a signal, or `undefined` if the outbox no longer contains it.
   */
  async read({ alias, sequence }: PendingSignal): Promise<OutboxRecord | undefined> {
    const entry = await this.#options.state.get(recordKey(alias, sequence));
    return entry && decodeRecord(entry);
  }

  /**
   * Yields pending signals and their records without the data, with pauses. Instead of a record that
   * the outbox does not contain, yields `undefined`.
   * @throws StoreError ERR_STORE_CORRUPT
   */
  async *describe(
    signals: readonly PendingSignal[],
  ): AsyncGenerator<readonly [PendingSignal, WithoutData<OutboxRecord> | undefined], void> {
    const work = new WorkBudget(unlimitedSteps);
    for (const pending of signals) {
      const entry = await this.#options.state.get(recordKey(pending.alias, pending.sequence));
      yield [pending, entry && withoutData(outboxRow.decode(entry))];
      await work.giveWayAfter(stepsOfRow(pending.bytes));
    }
  }

  /** Removes a signal. Resolves when the removal is durable. */
  async remove(pending: PendingSignal): Promise<void> {
    await this.#options.state.write([this.#deletion(pending)]);
    this.#forget(pending);
  }

  /**
   * Moves a signal to the delivered list. Resolves when the change is durable.
   * @throws StoreError ERR_REVISION if another member now delivers signals, or has removed the
   * signal
   */
  markDelivered(
    pending: PendingSignal,
    record: OutboxRecord,
    httpStatus: number | undefined,
  ): Promise<void> {
    return this.#settle(pending, this.delivered.operations(record, httpStatus));
  }

  /**
   * Moves a signal to the dead-letter list. Resolves when the change is durable.
   * @throws StoreError ERR_REVISION if another member now delivers signals, or has removed the
   * signal
   */
  async moveToDeadLetter(
    pending: PendingSignal,
    record: OutboxRecord,
    reason: string,
    httpStatus?: number,
  ): Promise<DeadLetter> {
    const why = { reason, ...(httpStatus === undefined ? {} : { httpStatus }) };
    const { dead, operations } = this.dead.operations({ ...this.#withProject(record), ...why });
    await this.#settle(pending, operations);
    return dead;
  }

  /**
   * Adds the project of the minion to a record without an owner. Otherwise each minion of a project
   * would have a share of its own in the dead-letter list.
   */
  #withProject(record: OutboxRecord): OutboxRecord & Pick<DeadLetter, 'project'> {
    const project = record.owner === undefined ? this.#quotas.projectOf(record.minion) : undefined;
    return project === undefined ? record : { ...record, project };
  }

  /**
   * Moves a signal to the dead-letter list without an attempt to deliver it, if the outbox still
   * contains the signal. Every member of a cluster may do this.
   * @returns false if the outbox no longer contains it
   */
  async moveIfThere(
    pending: PendingSignal,
    record: OutboxRecord,
    reason: string,
  ): Promise<boolean> {
    const { operations } = this.dead.operations({ ...this.#withProject(record), reason });
    try {
      await this.#options.state.write([this.#deletion(pending), ...operations]);
    } catch (error) {
      if (!isConflict(error)) throw error;
      return false;
    }
    this.#forget(pending);
    return true;
  }

  /**
   * Removes a record from the outbox, and stores the result of its delivery in the same
   * transaction.
   * @throws StoreError ERR_REVISION if another member now delivers signals, or has removed the
   * record; nothing is written in this case
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

  /**
   * Returns the operation that deletes a row. In a cluster, the operation fails if the row has
   * changed since this member read it.
   */
  #deletion(pending: PendingSignal): StateOperation {
    const { alias, sequence } = pending;
    const row = this.#rows.get(rowName(pending));
    const condition = row === undefined ? {} : { ifRevision: row.revision };
    return { op: 'delete', key: recordKey(alias, sequence), ...condition };
  }

  /**
   * Assigns a handle to a record that had none. Resolves when the change is durable.
   * @returns the exhausted quota if the handle could not be assigned, otherwise `undefined`
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

  /**
   * Counts a record as a held signal again, and no longer as a signal of a handle. Without a
   * cluster, this undoes the count after a failed write. In a cluster, it is done before the write,
   * because every member counts the record for the handle when it receives the row.
   */
  #countAgain(pending: PendingSignal, use: QuotaUse): void {
    this.#quotas.release(use);
    this.#quotas.take(pending);
  }

  /** Overwrites a row. Does nothing if another member has changed the row since it was read. */
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

  /** Replaces the signal in a held record. Resolves when the change is durable. */
  async rewrite(pending: PendingSignal, record: OutboxRecord): Promise<void> {
    const key = recordKey(record.alias, record.sequence);
    const put = { op: 'put', key, value: encodeRecord(record) } as const;
    if (this.#isFollowed) await this.#writeIfSame(put, pending);
    else await this.#options.state.write([put]);
  }

  /**
   * Moves a dead letter to the end of its handle's queue. Resolves when the change is durable.
   * @throws BridgeError ERR_SIGNAL_UNKNOWN, ERR_SIGNAL_QUOTA
   */
  async requeue(id: string, handle: HandleInfo): Promise<OutboxRecord> {
    const { dead, revision } = await this.dead.get(id);
    const {
      reason: _reason,
      httpStatus: _status,
      endedAt: _endedAt,
      project: _project,
      ...old
    } = dead;
    const sequence = this.#nextSequence();
    const record: OutboxRecord = { ...assignToHandle(handle, old), sequence };
    const value = encodeRecord(record);
    const use = { ...record, bytes: value.length };
    const quota = this.#quotas.tryTake(use);
    if (quota !== undefined) {
      throw new BridgeError(
        'ERR_SIGNAL_QUOTA',
        `the outbox of signals is full (quota: ${quota}); retry later`,
      );
    }
    // In a cluster, the record is counted when the replicated log delivers it.
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
      // A write that the quorum did not confirm may still have reached the log. In this case, the
      // record stays.
      if (!this.#rows.has(rowName(pending))) this.#forget(pending);
      if (!isConflict(error)) throw error;
      return this.#isFollowed ? undefined : { kind: 'repeated', id: record.id };
    }
  }

  /**
   * Applies a stored row to memory. In a cluster, other members write rows too, and rows arrive in
   * the order of the replicated log.
   */
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

  /**
   * Returns the next sequence number. It is based on the clock, so that numbers are not reused
   * after a start with an empty outbox.
   */
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

/**
 * Returns the id of a signal. No other signal has this id [THREATS B-04]. A repetition of the
 * signal's request results in the same id.
 */
function signalIdOf({ alias, minion }: NewRecord, { request, place }: RequestReference): string {
  const text = JSON.stringify([alias, minion, request, place]);
  return hash('sha256', text, 'base64url').slice(0, 32);
}

function recordKey(alias: string, sequence: number): readonly string[] {
  return ['signals', 'outbox', alias, String(sequence).padStart(16, '0')];
}

/**
 * Returns the name `<alias>/<sequence>` of a row. It is unique, because an alias contains no slash.
 */
function rowName({ alias, sequence }: Pick<PendingSignal, 'alias' | 'sequence'>): string {
  return recordKey(alias, sequence).slice(2).join('/');
}

function requestKey(minion: string, { request, place }: RequestReference): readonly string[] {
  return ['signals', 'requests', minion, request, String(place)];
}
