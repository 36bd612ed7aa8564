import { createHash, randomInt, randomUUID } from 'node:crypto';
import Type from 'typebox';
import type { SharedArea, StateArea, StateChange, StateOperation } from '#master';
import { parseJson, writeJson } from '#runtime';
import {
  Bytes,
  defineRow,
  type Entry,
  fromJson,
  type RowCodec,
  type RowOf,
  StoreError,
} from '#store';
import { BridgeError } from '../errors.ts';
import type { HandleInfo } from './handles.ts';
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
  /** JSON, which is not read before it is needed: a start need not read what guests said. */
  signal: Bytes,
  /** Milliseconds since 1970. */
  acceptedAt: Time,
};

/** Rows `signals/outbox/<alias>/<sequence>`. */
const outboxRow = defineRow({
  name: 'signal',
  schema: Type.Object(recordFields),
  unversioned,
});

/** Rows `signals/dead/<id>`. */
const deadRow = defineRow({
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

function packSignal(signal: Signal): Uint8Array {
  return Buffer.from(writeJson(signal));
}

function unpackSignal<R extends { readonly signal: Uint8Array }>({
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
   * now, `delivered`, or `dead`: it is over.
   */
  readonly state: 'dead' | 'delivered' | 'held' | 'sending' | 'waiting';
  /** Milliseconds since 1970. */
  readonly acceptedAt: number;
  /** Tries that failed since this process started. */
  readonly failures: number;
  /** Why the last try failed, or why it is over: mostly the service's own words. */
  readonly reason?: string;
  /** What the service answered to the last try; absent: nothing came, or nobody was asked yet. */
  readonly httpStatus?: number;
  /** When it was over, milliseconds since 1970. */
  readonly endedAt?: number;
}

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

const formKey = ['signals', 'form'];

/**
 * Gives the records of an earlier version, which were one line of JSON, a head of their own; and
 * the owner of their handle where there was none, as its owner could not find them otherwise. Once,
 * and all of them or none.
 */
export async function upgradeRecords(
  state: StateArea,
  ownerOf: (handle: string) => string | undefined,
): Promise<void> {
  if ((await state.get(formKey)) !== undefined) return;
  const operations: StateOperation[] = [
    { op: 'put', key: formKey, value: Buffer.from('2'), ifRevision: 0 },
  ];
  for (const part of ['outbox', 'dead']) {
    for await (const { key, value, expiresAt } of state.list(['signals', part])) {
      const row = part === 'dead' ? deadRow : outboxRow;
      const old = row.decode({ key, value });
      const owner = old.owner ?? (old.handle === undefined ? undefined : ownerOf(old.handle));
      const put = {
        op: 'put',
        key,
        value: row.encode(owner === undefined ? old : { ...old, owner }),
      } as const;
      operations.push(expiresAt === undefined ? put : { ...put, expiresAt });
    }
  }
  try {
    await state.write(operations);
  } catch (error) {
    // Another member of the cluster has done it.
    if (!isConflict(error)) throw error;
  }
}

/** A row was changed since it was looked at. */
function isConflict(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'ERR_REVISION';
}

/** Ids of what is over, by age, with the time at which each is forgotten. */
class AgedIds {
  readonly #expiry = new Map<string, number>();

  /** With those that there are; in a cluster also with those of other members from then on. */
  async follow(state: SharedArea, part: 'dead' | 'delivered'): Promise<void> {
    await state.follow(['signals', part], (change) => this.#note(change));
    const found = [...this.#expiry].sort(([, a], [, b]) => a - b);
    this.#expiry.clear();
    for (const [id, expiresAt] of found) this.#expiry.set(id, expiresAt);
  }

  get size(): number {
    return this.#expiry.size;
  }

  add(id: string, expiresAt: number): void {
    this.#expiry.set(id, expiresAt);
  }

  remove(id: string): void {
    this.#expiry.delete(id);
  }

  /** Forgets those whose time is over. */
  expire(now: number): void {
    for (const [id, expiresAt] of this.#expiry) {
      if (expiresAt > now) return;
      this.#expiry.delete(id);
    }
  }

  /** Takes out the oldest where there are more than so many. */
  dropOldest(most: number): string | undefined {
    const [oldest] = this.#expiry.keys();
    if (this.#expiry.size <= most || oldest === undefined) return undefined;
    this.#expiry.delete(oldest);
    return oldest;
  }

  /** The rows are not read: a thousand of them are as large as the outbox. */
  #note(change: StateChange): void {
    if (change.type === 'delete') this.#expiry.delete(change.key.at(-1) ?? '');
    else this.#expiry.set(change.entry.key.at(-1) ?? '', change.entry.expiresAt ?? 0);
  }
}

/** More than an operator reads; the oldest go. */
const maxDeadLetters = 10_000;

export interface DeadLetterListOptions {
  readonly state: SharedArea;
  /** How long they are kept, milliseconds. */
  readonly keepMs: number;
  readonly now: () => number;
}

/** The signals that will not be delivered, with the reason, for an operator to look at. */
export class DeadLetterList {
  readonly #options: DeadLetterListOptions;
  readonly #ids = new AgedIds();

  private constructor(options: DeadLetterListOptions) {
    this.#options = options;
  }

  static async open(options: DeadLetterListOptions): Promise<DeadLetterList> {
    const letters = new DeadLetterList(options);
    await letters.#ids.follow(options.state, 'dead');
    return letters;
  }

  /** How many there are. */
  get size(): number {
    this.#ids.expire(this.#options.now());
    return this.#ids.size;
  }

  /** Those that ended first come first. */
  async list(): Promise<readonly DeadLetter[]> {
    const records: DeadLetter[] = [];
    for await (const entry of this.#options.state.list(['signals', 'dead'])) {
      records.push(unpackSignal(deadRow.decode(entry)));
    }
    return records.sort((a, b) => a.endedAt - b.endedAt);
  }

  /** With the revision of its row. @throws BridgeError ERR_SIGNAL_UNKNOWN */
  async get(id: string): Promise<{ readonly dead: DeadLetter; readonly revision: number }> {
    const entry = await this.#options.state.get(['signals', 'dead', id]);
    if (entry === undefined) throw unknownDeadLetterError();
    return { dead: unpackSignal(deadRow.decode(entry)), revision: entry.revision };
  }

  /** A record as it is listed, and what lists it. */
  operations(record: OutboxRecord & Pick<DeadLetter, 'httpStatus' | 'reason'>): {
    readonly dead: DeadLetter;
    readonly operations: readonly StateOperation[];
  } {
    const { keepMs, now } = this.#options;
    const dead: DeadLetter = { ...record, endedAt: now() };
    const expiresAt = dead.endedAt + keepMs;
    const put = {
      op: 'put',
      key: ['signals', 'dead', record.id],
      value: deadRow.encode({ ...dead, signal: packSignal(dead.signal) }),
      expiresAt,
    } as const;
    this.#ids.add(record.id, expiresAt);
    const oldest = this.#ids.dropOldest(maxDeadLetters);
    if (oldest === undefined) return { dead, operations: [put] };
    return { dead, operations: [put, { op: 'delete', key: ['signals', 'dead', oldest] }] };
  }

  async remove(id: string): Promise<void> {
    await this.#options.state.write([{ op: 'delete', key: ['signals', 'dead', id] }]);
    this.#ids.remove(id);
  }

  /**
   * Takes one out, unless somebody else has meanwhile.
   * @param besides - done in the same transaction
   * @throws BridgeError ERR_SIGNAL_UNKNOWN
   */
  async take(id: string, revision: number, besides: readonly StateOperation[]): Promise<void> {
    const deleted = { op: 'delete', key: ['signals', 'dead', id], ifRevision: revision } as const;
    try {
      // protection: requeued-once
      await this.#options.state.write([deleted, ...besides]);
    } catch (error) {
      throw isConflict(error) ? unknownDeadLetterError() : error;
    }
    this.#ids.remove(id);
  }
}

function unknownDeadLetterError(): BridgeError {
  return new BridgeError(
    'ERR_SIGNAL_UNKNOWN',
    'the dead-letter list has no signal of this id; those that wait are tried again anyway',
  );
}

/** How long a delivered signal is listed, milliseconds. */
const deliveredTtlMs = 86_400_000;
/** More than an operator reads; the oldest go. */
const maxDelivered = 10_000;

/** The signals that were delivered, for a day, without what the guest said. */
export class DeliveredList {
  readonly #state: SharedArea;
  readonly #now: () => number;
  readonly #ids = new AgedIds();

  private constructor(state: SharedArea, now: () => number) {
    this.#state = state;
    this.#now = now;
  }

  static async open(state: SharedArea, now: () => number): Promise<DeliveredList> {
    const delivered = new DeliveredList(state, now);
    await delivered.#ids.follow(state, 'delivered');
    return delivered;
  }

  /** Those that were delivered last come first. @throws StoreError ERR_STORE_CORRUPT */
  list(): Promise<readonly OutboxEntry[]> {
    return listDelivered(this.#state);
  }

  /** What keeps it, for the transaction that takes it out of the outbox. */
  operations(record: OutboxRecord, httpStatus: number | undefined): readonly StateOperation[] {
    const endedAt = this.#now();
    const entry = outboxEntryOf(record, 'delivered', { httpStatus, endedAt });
    const expiresAt = endedAt + deliveredTtlMs;
    const put = {
      op: 'put',
      key: ['signals', 'delivered', record.id],
      value: deliveredRow.encode(entry),
      expiresAt,
    } as const;
    this.#ids.add(record.id, expiresAt);
    const oldest = this.#ids.dropOldest(maxDelivered);
    if (oldest === undefined) return [put];
    return [put, { op: 'delete', key: ['signals', 'delivered', oldest] }];
  }
}

/** Rows `signals/delivered/<id>`. */
const deliveredRow: RowCodec<OutboxEntry> = defineRow({
  name: 'delivered signal',
  schema: Type.Object({
    id: Text,
    alias: Text,
    minion: Text,
    member: Type.Optional(Text),
    stack: Type.Optional(Text),
    owner: Type.Optional(Text),
    status: Type.Enum(['FAILURE', 'SUCCESS']),
    state: Type.Literal('delivered'),
    acceptedAt: Time,
    failures: Type.Number(),
    reason: Type.Optional(Text),
    httpStatus: Type.Optional(Type.Number()),
    endedAt: Time,
  }),
  unversioned: fromJson,
});

/** @throws StoreError ERR_STORE_CORRUPT */
async function listDelivered(state: StateArea): Promise<readonly OutboxEntry[]> {
  const entries: OutboxEntry[] = [];
  for await (const entry of state.list(['signals', 'delivered'])) {
    entries.push(deliveredRow.decode(entry));
  }
  return entries.sort((a, b) => (b.endedAt ?? 0) - (a.endedAt ?? 0));
}

// Quotas, so that one guest or stack leaves room for others.

/** Signals that are not yet delivered. */
export interface OutboxQuotaOptions {
  /** Of one minion. */
  readonly perMinion: number;
  /** Of one stack of one owner. */
  readonly perStack: number;
  /** Of the handles of one owner; those of the local interface have none. */
  readonly perOwner: number;
  /** The same, bytes as they are stored. */
  readonly ownerBytes: number;
  /** Of one minion, for handles that are not registered yet. */
  readonly heldPerMinion: number;
  /** In all. */
  readonly entries: number;
  /** In all, bytes as they are stored. */
  readonly bytes: number;
}

/** What a record counts against. */
export interface QuotaUse {
  readonly minion: string;
  /** `undefined`: it has no handle yet. */
  readonly stack?: string | undefined;
  readonly owner?: string | undefined;
  readonly bytes: number;
}

/** Which quota is used up. */
export type FullQuota = 'entries' | 'held' | 'perMinion' | 'perOwner' | 'perStack' | 'room';

/** The part of `bytes` that signals without a handle may have. */
const heldShare = 0.25;

/** How much of each quota is used. */
export class OutboxQuotas {
  readonly #options: OutboxQuotaOptions;
  readonly #minions = new Map<string, number>();
  readonly #stacks = new Map<string, number>();
  readonly #owners = new Map<string, number>();
  readonly #ownerBytes = new Map<string, number>();
  readonly #held = new Map<string, number>();
  #entries = 0;
  #bytes = 0;
  #heldBytes = 0;

  constructor(options: OutboxQuotaOptions) {
    this.#options = options;
  }

  /** Takes room for a record; says what is full where there is none. */
  tryTake(record: QuotaUse): FullQuota | undefined {
    const { perMinion, entries, bytes } = this.#options;
    // protection: signals-without-end
    if ((this.#minions.get(record.minion) ?? 0) >= perMinion) return 'perMinion';
    const full = record.stack === undefined ? this.#fullOfHeld(record) : this.#fullOfOwner(record);
    if (full !== undefined) return full;
    if (this.#entries >= entries) return 'entries';
    if (this.#bytes + record.bytes > bytes) return 'room';
    this.take(record);
    return undefined;
  }

  #fullOfHeld(record: QuotaUse): FullQuota | undefined {
    const { bytes, heldPerMinion } = this.#options;
    // protection: held-per-minion
    if ((this.#held.get(record.minion) ?? 0) >= heldPerMinion) return 'held';
    return this.#heldBytes + record.bytes > bytes * heldShare ? 'room' : undefined;
  }

  #fullOfOwner(record: QuotaUse): FullQuota | undefined {
    const { perOwner, ownerBytes, perStack } = this.#options;
    if ((this.#stacks.get(stackKey(record)) ?? 0) >= perStack) return 'perStack';
    const { owner } = record;
    if (owner === undefined) return undefined;
    const isFull =
      (this.#owners.get(owner) ?? 0) >= perOwner ||
      (this.#ownerBytes.get(owner) ?? 0) + record.bytes > ownerBytes;
    // protection: signals-per-owner
    return isFull ? 'perOwner' : undefined;
  }

  /** Takes it in any case: what was accepted before counts. */
  take(record: QuotaUse): void {
    this.#count(record, 1);
  }

  release(record: QuotaUse): void {
    this.#count(record, -1);
  }

  #count(record: QuotaUse, by: 1 | -1): void {
    const { minion, stack, owner, bytes } = record;
    addToCount(this.#minions, minion, by);
    if (stack === undefined) {
      addToCount(this.#held, minion, by);
      this.#heldBytes += by * bytes;
    } else {
      addToCount(this.#stacks, stackKey(record), by);
    }
    if (owner !== undefined) {
      addToCount(this.#owners, owner, by);
      addToCount(this.#ownerBytes, owner, by * bytes);
    }
    this.#entries += by;
    this.#bytes += by * bytes;
  }
}

/** Stacks of two owners may have the same name. */
function stackKey({ owner, stack }: QuotaUse): string {
  return JSON.stringify([owner ?? null, stack]);
}

function addToCount(counts: Map<string, number>, name: string, by: number): void {
  const count = (counts.get(name) ?? 0) + by;
  if (count === 0) counts.delete(name);
  else counts.set(name, count);
}

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
      // protection: outbox-of-one-member
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
  const { id, stack, owner } = handle;
  return { ...rest, handle: id, stack, ...(owner === undefined ? {} : { owner }) };
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
