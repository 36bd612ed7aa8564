import { createHash, hash } from 'node:crypto';
import {
  applyStreamStep,
  applyWrite,
  type KeyedChange,
  logStateKey,
  type RowTables,
  removeExpired,
  StoreError,
  type Table,
  type Tables,
} from '#store';
import { type LogCipher, type OpenedMessage, sealVersion, versionBits } from './cipher.ts';
import { decodeEntry, decodeTransaction, type EntryBody, type HistoryMark } from './entry.ts';
import type { LogEntry } from './transaction-log.ts';

/** State of a member, as the entries of the log determine it. */
interface MemberState {
  /** Current session of the member. A new session begins each time the member opens its store. */
  readonly session: string;
  /** Position in the log of the entry with which the member began its current session. */
  readonly openedAt: number;
  /**
   * Counter of an entry of this session. If an entry with this counter or a lower one arrives, it
   * is ignored. It is a copy of an applied entry, or more than {@link maxBeyond} entries with
   * higher counters were applied first.
   */
  readonly through: number;
  /**
   * Counters of entries that were applied although some entries with lower counters had not arrived
   * yet. All of these counters are higher than `through`.
   */
  readonly beyond: readonly number[];
}

/**
 * State of a store that follows the log. An entry and the state after it are written in the same
 * transaction.
 */
export interface ViewState extends HistoryMark {
  /** SHA-256 of the entry at {@link HistoryMark.position}, in hexadecimal. */
  readonly entry: string;
  /** Latest of the times in the applied entries, in milliseconds since 1970. */
  readonly time: number;
  readonly members: Readonly<Record<string, MemberState>>;
  /**
   * Positions of the entries that removed members from the cluster, by name of the removed member.
   */
  readonly departed: Readonly<Record<string, number>>;
  /** Positions of the last two snapshots, the older one first. */
  readonly snapshots: readonly number[];
}

/** Result of a transaction. */
export type TransactionResult = { readonly revision: number } | { readonly error: StoreError };

/** Result of applying an entry. */
export interface AppliedEntry {
  readonly position: number;
  readonly hash: string;
  /**
   * Member that wrote the entry. `known` states how far this member had applied the log when it
   * wrote the entry, as position and hash. `undefined` if the entry was not encrypted by a member.
   */
  readonly sender: { readonly member: string; readonly known: HistoryMark } | undefined;
  readonly session: string | undefined;
  readonly counter: number;
  /**
   * Results of the transactions in the entry, in order, or `undefined` if the entry had no effect.
   */
  readonly results: readonly TransactionResult[] | undefined;
  readonly changes: readonly KeyedChange[];
}

const sweepIntervalMs = 1000;
/**
 * Maximum number of entries that are applied while an earlier entry of the same session is missing.
 * After that, the missing entry is ignored, even if it arrives. A session begins when a member
 * opens its store.
 */
const maxBeyond = 256;
/** Maximum number of positions in the log whose running hash is cached. */
const maxKnownHashes = 8192;

/**
 * Reads the state of a store from its tables. Returns `undefined` if the store has never followed a
 * log.
 */
export function readViewState({ meta }: RowTables): ViewState | undefined {
  const row = meta.get(logStateKey);
  return row === undefined ? undefined : JSON.parse(row.toString());
}

/** Writes the state of a store to its tables. Must be called inside a transaction. */
export function writeViewState({ meta }: RowTables, state: ViewState): void {
  meta.put(logStateKey, Buffer.from(JSON.stringify(state)));
}

/** Returns the SHA-256 of the bytes in hexadecimal. */
export function digestOf(bytes: Uint8Array): string {
  return hash('sha256', bytes);
}

/** The tables of a store that follows the log. Applies entries of the log to the tables. */
export class LogView {
  readonly #tables: Tables;
  readonly #cipher: LogCipher;
  readonly #hashes = new Map<number, string>();
  #state: ViewState;
  #repeated = 0;
  #foreign = 0;

  constructor(tables: Tables, cipher: LogCipher, state: ViewState) {
    this.#tables = tables;
    this.#cipher = cipher;
    this.#state = state;
    this.#remember(state);
  }

  get state(): ViewState {
    return this.#state;
  }

  /**
   * Number of ignored entries: copies of applied entries, and entries of earlier sessions of a
   * member.
   */
  get repeated(): number {
    return this.#repeated;
  }

  /** Number of entries that are not encrypted with a key of the cluster. They have no effect. */
  get foreign(): number {
    return this.#foreign;
  }

  /**
   * Returns the hash of all entries up to a position of the log. Returns `undefined` if this member
   * has not applied the position yet, or no longer caches its hash.
   */
  hashAt(position: number): string | undefined {
    return this.#hashes.get(position);
  }

  /**
   * Applies entries in one transaction. The promise resolves when the transaction is durable.
   * @throws StoreError ERR_STORE_DIVERGED, ERR_STORE_VERSION, and the errors of a transaction
   */
  async apply(entries: readonly LogEntry[]): Promise<AppliedEntry[]> {
    const done = await this.#tables.transaction(() => {
      let state = this.#state;
      const applied: AppliedEntry[] = [];
      const marks: HistoryMark[] = [];
      const opened = entries.map((entry) => this.#open(entry));
      for (const [index, entry] of entries.entries()) {
        const one = this.#applyEntry(state, entry, opened[index]);
        state = one.state;
        applied.push(one.applied);
        marks.push(state);
      }
      writeViewState(this.#tables, state);
      return { state, applied, marks };
    });
    this.#state = done.state;
    for (const mark of done.marks) this.#remember(mark);
    for (const { session, results } of done.applied) {
      if (session === undefined) this.#foreign += 1;
      else if (results === undefined) this.#repeated += 1;
    }
    return done.applied;
  }

  #remember({ position, hash }: HistoryMark): void {
    this.#hashes.set(position, hash);
    this.#hashes.delete(position - maxKnownHashes);
  }

  /**
   * Decrypts an entry before any table is changed.
   * @returns `undefined` if the entry is not encrypted with a key of the cluster
   * @throws StoreError ERR_STORE_VERSION
   */
  #open({ position, bytes }: LogEntry): OpenedMessage | undefined {
    if (((bytes[0] ?? 0) & versionBits) > sealVersion) {
      throw new StoreError(
        'ERR_STORE_VERSION',
        `entry ${position} of the log was written by a later version; upgrade this member`,
      );
    }
    return this.#cipher.open(bytes);
  }

  #applyEntry(
    before: ViewState,
    { position, bytes }: LogEntry,
    message: OpenedMessage | undefined,
  ): { readonly state: ViewState; readonly applied: AppliedEntry } {
    const recorded = new RecordedTables(this.#tables);
    const body = message === undefined ? undefined : decodeEntry(message.body);
    if (body !== undefined && body.content.kind !== 'found') this.#compare(before, body);
    const applied =
      message === undefined || body === undefined
        ? { state: before }
        : applyBody(before, { message, body, position, recorded });
    const hash = createHash('sha256').update(`${before.hash} ${position} `).update(bytes);
    hash.update(recorded.effects());
    const state = { ...applied.state, position, entry: digestOf(bytes), hash: hash.digest('hex') };
    const { results, changes = [] } = applied;
    return {
      state,
      applied: {
        position,
        hash: state.hash,
        sender: body,
        session: message?.session,
        counter: message?.counter ?? 0,
        results,
        changes,
      },
    };
  }

  /**
   * Checks that the writer of an entry and this store follow the same log.
   *
   * @throws StoreError ERR_STORE_DIVERGED if they do not
   */
  #compare(state: ViewState, { member, known }: EntryBody): void {
    if (known.log !== state.log) {
      throw new StoreError(
        'ERR_STORE_DIVERGED',
        `member ${member} writes to log ${known.log}, but this store follows ${state.log}`,
      );
    }
  }
}

interface BodyResult {
  readonly state: ViewState;
  readonly results?: readonly TransactionResult[];
  readonly changes?: readonly KeyedChange[];
}

interface BodyContext {
  readonly message: OpenedMessage;
  readonly body: EntryBody;
  readonly position: number;
  readonly recorded: RecordedTables;
}

function applyBody(before: ViewState, context: BodyContext): BodyResult {
  const { message, body, position, recorded } = context;
  const { member, content } = body;
  if (content.kind === 'found') return { state: before };
  if (content.kind === 'open') {
    const past = before.members[member]?.openedAt ?? before.departed[member] ?? 0;
    // When a member opens its store, it has applied the entries of all its earlier openings. If it
    // has not, this entry is a repetition of an old entry.
    if (body.known.position < past) return { state: before };
    const { session, counter: through } = message;
    const opened: MemberState = { session, openedAt: position, through, beyond: [] };
    return { state: { ...before, members: { ...before.members, [member]: opened } }, results: [] };
  }
  const sender = before.members[member];
  if (sender?.session !== message.session) return { state: before };
  if (isKnown(sender, message.counter)) return { state: before };
  const time = Math.max(before.time, body.time);
  const members = { ...before.members, [member]: withCounter(sender, message.counter) };
  const state = { ...before, time, members };
  if (content.kind === 'leave') return { state: without(state, content.member), results: [] };
  if (content.kind === 'snapshot') return { state: withSnapshot(state, content), results: [] };
  if (content.kind === 'barrier') return { state, results: [] };
  if (Math.floor(time / sweepIntervalMs) > Math.floor(before.time / sweepIntervalMs)) {
    removeExpired(recorded, time);
  }
  const changes: KeyedChange[] = [];
  const results = content.transactions.map((bytes): TransactionResult => {
    try {
      const transaction = decodeTransaction(bytes);
      if (transaction.type === 'stream') {
        applyStreamStep(recorded, transaction.step);
        return { revision: 0 };
      }
      const written = applyWrite(recorded, transaction.steps, time);
      for (const change of written.changes) changes.push(change);
      return { revision: written.revision };
    } catch (error) {
      if (error instanceof StoreError) return { error };
      throw error;
    }
  });
  return { state, results, changes };
}

function isKnown({ through, beyond }: MemberState, counter: number): boolean {
  return counter <= through || beyond.includes(counter);
}

function withCounter(member: MemberState, counter: number): MemberState {
  const beyond = [...member.beyond, counter].sort((a, b) => a - b);
  let { through } = member;
  while (beyond.length > 0 && (beyond[0] === through + 1 || beyond.length > maxBeyond)) {
    through = beyond.shift() ?? through;
  }
  return { ...member, through, beyond };
}

function without(state: ViewState, member: string): ViewState {
  const { [member]: _gone, ...members } = state.members;
  return { ...state, members, departed: { ...state.departed, [member]: state.position + 1 } };
}

function withSnapshot(state: ViewState, { position }: { readonly position: number }): ViewState {
  const snapshots = [...state.snapshots, position].sort((a, b) => a - b).slice(-2);
  return { ...state, snapshots };
}

const noBytes = Buffer.alloc(0);

/** Wraps tables and records all changes that are made to them. */
class RecordedTables implements RowTables {
  readonly entries: Table;
  readonly expiries: Table;
  readonly records: Table;
  readonly meta: Table;
  readonly #effects: Buffer[] = [];

  constructor(tables: RowTables) {
    this.entries = this.#record(0, tables.entries);
    this.expiries = this.#record(2, tables.expiries);
    this.records = this.#record(4, tables.records);
    this.meta = this.#record(6, tables.meta);
  }

  #record(name: number, table: Table): Table {
    const note = (key: Buffer, kind: number, value: Buffer): void => {
      const head = Buffer.allocUnsafe(9);
      head.writeUInt8(kind);
      head.writeUInt32BE(key.length, 1);
      head.writeUInt32BE(value.length, 5);
      this.#effects.push(head, key, Buffer.from(value));
    };
    return {
      get: (key) => table.get(key),
      range: (range) => table.range(range),
      keys: (range) => table.keys(range),
      put: (key, value) => {
        note(key, name + 1, value);
        table.put(key, value);
      },
      remove: (key) => {
        note(key, name, noBytes);
        table.remove(key);
      },
    };
  }

  effects(): Buffer {
    return Buffer.concat(this.#effects);
  }
}
