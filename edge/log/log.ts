/**
 * Interface of a site's log. A site appends entries, which stay in its store until the centre has
 * stored them. The centre applies each entry once, in the order of the site.
 */

import type { StateOperation } from '#master';
import type { WireMap } from '#minion-protocol';

/** Classes of entries, in the order of sending. When the log is full, the last class goes first. */
export const logClasses = ['alarm', 'signal', 'return', 'fact'] as const;

export type LogClass = (typeof logClasses)[number];

/** Entry that a site appends. */
export interface NewLogEntry {
  readonly class: LogClass;
  /** Kind of entry, which selects the handler at the centre: `return`, `event`, `audit`, … */
  readonly kind: string;
  readonly value: WireMap;
}

/** Entry as the centre receives it. */
export interface LogEntry extends NewLogEntry {
  readonly site: string;
  /** Number of the entry in its class at the site: 1, 2, 3, … A gap means that entries were dropped. */
  readonly sequence: number;
  /** Time of the entry by the hybrid clock of the site: milliseconds since 1970 and a counter. */
  readonly at: { readonly ms: number; readonly count: number };
}

/** Side of the site. */
export interface SiteLog {
  /** Appends an entry. Resolves when it is on disk. */
  append(entry: NewLogEntry): Promise<void>;
  /** Number, size in bytes and time of the oldest of the waiting entries, by class. */
  readonly waiting: Readonly<Record<LogClass, WaitingEntries>>;
}

export interface WaitingEntries {
  readonly entries: number;
  readonly bytes: number;
  /** Milliseconds since 1970; `undefined` if no entry waits. */
  readonly oldestAt: number | undefined;
  /** Entries dropped since the log was created, because it was full. */
  readonly dropped: number;
}

/** Handles the entries of one kind at the centre. */
export interface LogEntryHandler {
  /**
   * Returns the writes of an entry. They are written in one transaction with the position of the
   * site, so that each entry takes effect once. Other effects must be idempotent, because the
   * function is called again if the write fails. If it throws an `EdgeError`, the entry is refused,
   * and the site reports this.
   */
  operations?(entry: LogEntry): readonly StateOperation[] | Promise<readonly StateOperation[]>;
  /**
   * Called after the writes of an entry are on disk. After a crash it is called again for the
   * entries whose batch was not acknowledged, so it must be idempotent by site, class and sequence.
   */
  applied?(entry: LogEntry): void | Promise<void>;
}

/** Side of the centre. */
export interface LogIngest {
  /** Registers the handler of a kind. Entries without a handler are counted and dropped. */
  on(kind: string, handler: LogEntryHandler): void;
}
