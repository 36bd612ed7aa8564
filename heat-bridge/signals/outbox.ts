/**
 * The signals that were accepted and are not over: in the store, written before the guest is
 * answered, and by name in memory. What is written together is all there after a crash, or not at all.
 */
import { createHash, randomUUID } from 'node:crypto';
import { type StateArea, StoreError } from '../../master/index.ts';
import { BridgeError } from '../errors.ts';
import { DeadLetters } from './dead-letters.ts';
import type { HandleInfo } from './handle.ts';
import { type DeadRecord, type OutboxRecord, packRecord, unpackRecord } from './outbox-record.ts';
import { type FullQuota, type QuotaOptions, Quotas } from './quotas.ts';

/** A signal before it is accepted. */
export type NewRecord = Omit<OutboxRecord, 'acceptedAt' | 'id' | 'sequence'>;

/** The request that brought a signal, and the place of the signal in it. */
export interface RequestMark {
  readonly request: string;
  readonly place: number;
}

/** A record in memory: what it takes to find it, and to give its room back. */
export interface Pending {
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
export type Acceptance =
  | { readonly kind: 'accepted'; readonly id: string }
  /** It was, when the same request came before. */
  | { readonly kind: 'repeated' }
  | { readonly kind: 'full'; readonly quota: FullQuota };

/** What {@link Outbox} needs. */
export interface OutboxOptions {
  readonly state: StateArea;
  readonly quotas: QuotaOptions;
  /** As long as a request that was sent once can come again, milliseconds. */
  readonly keepMarksMs: number;
  /** How long what is over is kept, milliseconds. */
  readonly keepDeadMs: number;
  readonly now: () => number;
}

/** See above. */
export class Outbox {
  readonly dead: DeadLetters;
  readonly #options: OutboxOptions;
  readonly #quotas: Quotas;
  readonly #pending = new Map<string, Pending>();
  #onPending: (pending: Pending) => void = () => {};
  #lastSequence = 0;

  private constructor(options: OutboxOptions, dead: DeadLetters) {
    this.#options = options;
    this.dead = dead;
    this.#quotas = new Quotas(options.quotas);
  }

  /** With what a process before this one left. */
  static async open(options: OutboxOptions): Promise<Outbox> {
    const { state, keepDeadMs, now } = options;
    const dead = await DeadLetters.open({ state, keepMs: keepDeadMs, now });
    const outbox = new Outbox(options, dead);
    for await (const { value } of state.list(['signals', 'outbox'])) {
      const record = unpackRecord(value);
      outbox.#quotas.take(outbox.#remember(record, value.length, Promise.resolve(true)));
      outbox.#lastSequence = Math.max(outbox.#lastSequence, record.sequence);
    }
    return outbox;
  }

  /** All that is not over, the oldest first. */
  get pending(): readonly Pending[] {
    return [...this.#pending.values()].sort((a, b) => a.sequence - b.sequence);
  }

  /** Told of each record, in the order of acceptance, before it is in the store. */
  set onPending(listener: (pending: Pending) => void) {
    this.#onPending = listener;
  }

  /** Accepts a signal; durable when it resolves. @throws StoreError when it cannot be kept */
  async accept(fresh: NewRecord, mark: RequestMark | undefined): Promise<Acceptance> {
    const key = mark === undefined ? undefined : markKey(fresh.minion, mark);
    if (key !== undefined && (await this.#options.state.get(key)) !== undefined) {
      return { kind: 'repeated' };
    }
    const record = { ...fresh, ...this.#place(fresh, mark), acceptedAt: this.#options.now() };
    // The same request is under way.
    if (await this.#pending.get(record.id)?.isWritten) return { kind: 'repeated' };
    const value = packRecord(record);
    const quota = this.#quotas.tryTake({ ...fresh, bytes: value.length });
    if (quota !== undefined) return { kind: 'full', quota };
    return this.#write(record, value, key);
  }

  /** The whole record. */
  async read({ alias, sequence }: Pending): Promise<OutboxRecord | undefined> {
    const entry = await this.#options.state.get(recordKey(alias, sequence));
    return entry === undefined ? undefined : unpackRecord(entry.value);
  }

  /** It is delivered, or dropped; durable when it resolves. */
  async remove(pending: Pending): Promise<void> {
    const { alias, sequence } = pending;
    await this.#options.state.write([{ op: 'delete', key: recordKey(alias, sequence) }]);
    this.#forget(pending);
  }

  /** It will not be delivered; durable when it resolves. */
  async bury(pending: Pending, record: OutboxRecord, reason: string): Promise<DeadRecord> {
    const deleted = { op: 'delete', key: recordKey(pending.alias, pending.sequence) } as const;
    const dead = await this.dead.add({ ...record, reason }, [deleted]);
    this.#forget(pending);
    return dead;
  }

  /**
   * Gives a record that was held to its handle; durable when it resolves.
   * @returns the quota of the handle that is full; the record stays as it was
   */
  async assign(
    pending: Pending,
    held: OutboxRecord,
    handle: HandleInfo,
  ): Promise<FullQuota | undefined> {
    const record = givenTo(handle, held);
    const value = packRecord(record);
    this.#quotas.give(pending);
    const quota = this.#quotas.tryTake({ ...record, bytes: value.length });
    if (quota !== undefined) {
      this.#quotas.take(pending);
      return quota;
    }
    const key = recordKey(record.alias, record.sequence);
    try {
      await this.#options.state.write([{ op: 'put', key, value }]);
    } catch (error) {
      this.#quotas.give({ ...record, bytes: value.length });
      this.#quotas.take(pending);
      throw error;
    }
    this.#onPending(this.#remember(record, value.length, Promise.resolve(true)));
    return undefined;
  }

  /**
   * Puts a record that was over behind the others of its handle; durable when it resolves.
   * @throws BridgeError ERR_SIGNAL_UNKNOWN, ERR_SIGNAL_QUOTA
   */
  async revive(id: string, handle: HandleInfo): Promise<OutboxRecord> {
    const { reason: _reason, endedAt: _endedAt, ...old } = await this.dead.get(id);
    const sequence = this.#nextSequence();
    const record: OutboxRecord = { ...givenTo(handle, old), sequence };
    const value = packRecord(record);
    const quota = this.#quotas.tryTake({ ...record, bytes: value.length });
    if (quota !== undefined) {
      throw new BridgeError('ERR_SIGNAL_QUOTA', `the outbox is full (${quota}); try again later`);
    }
    await this.dead.remove(id, [{ op: 'put', key: recordKey(record.alias, sequence), value }]);
    this.#onPending(this.#remember(record, value.length, Promise.resolve(true)));
    return record;
  }

  async #write(
    record: OutboxRecord,
    value: Uint8Array,
    mark: readonly string[] | undefined,
  ): Promise<Acceptance> {
    const { state, keepMarksMs, now } = this.#options;
    const expiresAt = now() + keepMarksMs;
    const written = state.write([
      ...(mark === undefined
        ? []
        : [{ op: 'put', key: mark, value: new Uint8Array(0), expiresAt, ifRevision: 0 } as const]),
      { op: 'put', key: recordKey(record.alias, record.sequence), value },
    ]);
    const isWritten = written.then(
      () => true,
      () => false,
    );
    const pending = this.#remember(record, value.length, isWritten);
    this.#onPending(pending);
    try {
      await written;
      return { kind: 'accepted', id: record.id };
    } catch (error) {
      this.#forget(pending);
      if (error instanceof StoreError && error.code === 'ERR_REVISION') return { kind: 'repeated' };
      throw error;
    }
  }

  /** Ids tell a signal from all others [THREATS B-04]; a request has the same ones each time. */
  #place(
    { alias, minion }: NewRecord,
    mark: RequestMark | undefined,
  ): Pick<OutboxRecord, 'id' | 'sequence'> {
    const sequence = this.#nextSequence();
    if (mark === undefined) return { id: randomUUID(), sequence };
    const text = JSON.stringify([alias, minion, mark.request, mark.place]);
    const id = createHash('sha256').update(text).digest('base64url').slice(0, 32);
    return { id, sequence };
  }

  /** By the clock, so that a number is not used again when the outbox was empty at the start. */
  #nextSequence(): number {
    this.#lastSequence = Math.max(this.#lastSequence + 1, this.#options.now() * 1000);
    return this.#lastSequence;
  }

  #remember(record: OutboxRecord, bytes: number, isWritten: Promise<boolean>): Pending {
    const { id, alias, handle, sequence, minion, member, stack, owner, acceptedAt } = record;
    const kept = { id, alias, handle, sequence, minion, member, stack, owner, acceptedAt };
    const pending = { ...kept, bytes, isWritten };
    this.#pending.set(id, pending);
    return pending;
  }

  #forget(pending: Pending): void {
    if (this.#pending.get(pending.id) !== pending) return;
    this.#pending.delete(pending.id);
    this.#quotas.give(pending);
  }
}

function givenTo(handle: HandleInfo, record: OutboxRecord): OutboxRecord {
  const { heldKey: _heldKey, ...rest } = record;
  const { id, stack, owner } = handle;
  return { ...rest, handle: id, stack, ...(owner === undefined ? {} : { owner }) };
}

function recordKey(alias: string, sequence: number): readonly string[] {
  return ['signals', 'outbox', alias, String(sequence).padStart(16, '0')];
}

function markKey(minion: string, { request, place }: RequestMark): readonly string[] {
  return ['signals', 'requests', minion, request, String(place)];
}
