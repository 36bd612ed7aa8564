import type { TransactionLog } from '#cluster';
import {
  type LogEntry,
  type LogHealth,
  LogUnavailableError,
} from '#cluster/log/transaction-log.ts';

/**
 * Failure of an append or an announcement. `lost`: it fails and nothing is stored. `unknown`: it
 * fails although the entry is stored.
 */
export type AppendFault = 'lost' | 'unknown' | undefined;

/** A log in memory. Tests can change its content and make it fail. */
export class MemoryLog {
  /** Entries from position `first` on. */
  entries: Uint8Array[] = [];
  first = 1;
  maxEntryBytes = 1_000_000;
  /** Returns the failure of the next append. */
  fault: () => AppendFault = () => undefined;
  /** Delays each report of the end of the log. */
  reports: Promise<void> = Promise.resolve();
  /** Whether announcements of members are dropped. */
  isQuiet = false;
  readonly #ids = new Map<string, number>();
  readonly #listeners = new Set<(bytes: Uint8Array) => void>();
  #waiting: (() => void)[] = [];

  get last(): number {
    return this.first + this.entries.length - 1;
  }

  /**
   * Returns the log as a member sees it.
   * @param hasConsumer - whether the member receives entries
   */
  connect(hasConsumer: () => boolean = () => true): TransactionLog {
    return new MemoryLogConnection(this, hasConsumer);
  }

  append(id: string, bytes: Uint8Array): number {
    const known = this.#ids.get(id);
    if (known !== undefined) return known;
    this.entries.push(Buffer.from(bytes));
    this.#ids.set(id, this.last);
    for (const wake of this.#waiting.splice(0)) wake();
    return this.last;
  }

  at(position: number): LogEntry | undefined {
    const bytes = this.entries[position - this.first];
    return bytes === undefined ? undefined : { position, bytes };
  }

  /** Resolves with the next append. */
  appended(): Promise<void> {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  trim(to: number): void {
    const count = Math.min(Math.max(0, to - this.first + 1), this.entries.length);
    this.entries.splice(0, count);
    this.first += count;
  }

  /**
   * Removes the end of the log, as may happen when servers lose power. Positions are then used
   * again.
   */
  truncate(last: number): void {
    this.entries.length = Math.max(0, last - this.first + 1);
    this.#ids.clear();
  }

  announce(bytes: Uint8Array): void {
    if (this.isQuiet) return;
    for (const listener of this.#listeners) setImmediate(listener, bytes);
  }

  listen(listener: (bytes: Uint8Array) => void, signal: AbortSignal): void {
    this.#listeners.add(listener);
    signal.addEventListener('abort', () => this.#listeners.delete(listener), { once: true });
  }
}

class MemoryLogConnection implements TransactionLog {
  readonly #log: MemoryLog;
  readonly #hasConsumer: () => boolean;

  constructor(log: MemoryLog, hasConsumer: () => boolean) {
    this.#log = log;
    this.#hasConsumer = hasConsumer;
  }

  get maxEntryBytes(): number {
    return this.#log.maxEntryBytes;
  }

  async append(id: string, bytes: Uint8Array): Promise<number> {
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    const fault = this.#log.fault();
    if (fault === 'lost') throw new LogUnavailableError('an append was lost');
    const position = this.#log.append(id, bytes);
    if (fault === 'unknown') throw new LogUnavailableError('an acknowledgement was lost');
    return position;
  }

  async *read(from: number, signal: AbortSignal): AsyncIterable<LogEntry> {
    const ended = new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    let next = Math.max(from, this.#log.first);
    while (!signal.aborted) {
      const appended = this.#log.appended();
      if (!this.#hasConsumer()) {
        await new Promise((resolve) => setTimeout(resolve, 10));
        continue;
      }
      const entry = this.#log.at(next);
      if (entry === undefined) await Promise.race([appended, ended]);
      else {
        next += 1;
        yield entry;
      }
    }
  }

  async entry(position: number): Promise<LogEntry | undefined> {
    return this.#log.at(position);
  }

  async trim(to: number): Promise<void> {
    this.#log.trim(to);
  }

  async health(): Promise<LogHealth> {
    await this.#log.reports;
    const { first, last } = this.#log;
    return { first, last, replicas: 1, currentReplicas: 1, server: 'memory' };
  }

  announce(bytes: Uint8Array): void {
    this.#log.announce(bytes);
  }

  onAnnouncement(listener: (bytes: Uint8Array) => void, signal: AbortSignal): void {
    this.#log.listen(listener, signal);
  }

  async close(): Promise<void> {}
}
