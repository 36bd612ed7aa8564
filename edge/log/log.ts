/**
 * Interface of a site's log. Entries stay in the store of the site until the centre has stored
 * them. The centre applies each entry once, and the entries of a class in the order in which the
 * site appended them.
 */

import type { StateOperation } from '#master';
import type { WireMap } from '#minion-protocol';

/**
 * Classes of entries, in the order of sending. If the log is full, entries of the last class are
 * dropped first, except for a minion that uses more than its part of the log, or less than its
 * reserve.
 */
export const logClasses = ['alarm', 'signal', 'return', 'fact'] as const;

export type LogClass = (typeof logClasses)[number];

/** Classes of entries that sites send in turn, because there can be very many of them. */
export const bulkClasses: readonly LogClass[] = ['return', 'fact'];

/** Classes of entries that sites send at once. */
export const urgentClasses = logClasses.filter((name) => !bulkClasses.includes(name));

/** Kinds of entries, with the classes in which the centre accepts entries of each kind. */
export const entryKinds: ReadonlyMap<string, readonly LogClass[]> = new Map([
  ['event', ['alarm', 'return']],
  ['return', ['return']],
  ['audit', ['return']],
  ['signal', ['signal']],
  ['order', ['signal']],
  ['key-claim', ['signal']],
  ['minion', ['fact']],
  ['inputs', ['fact']],
]);

/** Entry that a site appends. */
export interface NewLogEntry {
  readonly class: LogClass;
  /** Kind of entry, one of {@link entryKinds}. The centre has a handler for each kind. */
  readonly kind: string;
  readonly value: WireMap;
  /**
   * Minion that has caused the entry. Required if a minion can cause such entries at will. If the
   * log is full and this minion uses more than its part, its entries are dropped before those of
   * others. If its entries of the class `return` would together exceed the space that is still free
   * in the log, the large fields of this entry are replaced by `VALUE_TRIMMED`.
   */
  readonly minion?: string | undefined;
}

/** Entry as the centre receives it. */
export interface LogEntry extends NewLogEntry {
  readonly site: string;
  /**
   * Sequence number of the entry in its class at the site: 1, 2, 3, … A gap means that entries were
   * dropped.
   */
  readonly sequence: number;
  /** Time of the entry by the hybrid clock of the site: milliseconds since 1970 and a counter. */
  readonly at: { readonly ms: number; readonly count: number };
  /** Value as MessagePack, as the site has sent it. A part of the memory of the whole batch. */
  readonly packed: Uint8Array;
}

/** Interface of the log at the site. */
export interface SiteLog {
  /** Appends an entry. Resolves when the entry is on disk. */
  append(entry: NewLogEntry): Promise<void>;
  /**
   * Appends entries and executes store operations in one transaction. Resolves when the transaction
   * is on disk.
   */
  appendTogether(
    entries: readonly NewLogEntry[],
    operations: readonly StateOperation[],
  ): Promise<void>;
  /** Number, size and age of the entries that wait for the centre, by class. */
  readonly waiting: Readonly<Record<LogClass, WaitingEntries>>;
}

export interface WaitingEntries {
  readonly entries: number;
  readonly bytes: number;
  /**
   * Time of the oldest waiting entry, in milliseconds since 1970. `undefined` if no entry waits.
   */
  readonly oldestAt: number | undefined;
  /** Number of entries that a full log has dropped since it was created. */
  readonly dropped: number;
}

/** Handler for the entries of one kind at the centre. */
export interface LogEntryHandler {
  /**
   * Returns the store operations that apply an entry. In the same transaction, the centre stores
   * that it has applied the entry, so that each entry takes effect once. Other effects must be
   * idempotent, because the function is called again if the transaction fails. If the function
   * throws an `EdgeError`, the centre refuses the entry, and the site logs the refusal.
   */
  operations?(entry: LogEntry): readonly StateOperation[] | Promise<readonly StateOperation[]>;
  /**
   * Returns store operations for several entries of this handler's kind together, in addition to
   * {@link operations} for each entry. All operations are executed in one transaction. The entries
   * come from one site and have one class. Refused entries are not included.
   */
  batchOperations?(entries: readonly LogEntry[]): Promise<readonly StateOperation[]>;
  /**
   * Called after the store operations of an entry are on disk. After a crash it may be called again
   * for the same entry. A repeated call with the same site, class and sequence number must have no
   * further effect.
   */
  applied?(entry: LogEntry): void | Promise<void>;
}

/** Registry of the functions that handle the log entries of sites at the centre. */
export interface LogIngest {
  /**
   * Registers the handler of a kind of entry. Several kinds may have the same handler. The centre
   * refuses entries of a kind without a handler, and entries in a class that {@link entryKinds} does
   * not permit for their kind.
   */
  on(kind: string, handler: LogEntryHandler): void;
}
