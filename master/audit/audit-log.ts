/** The audit log of a running master. */

import { createHmac } from 'node:crypto';
import type { Logger } from 'pino';
import { isSmallJson, type JsonForm, Semaphore, StepScheduler, writeJsonInSteps } from '#runtime';
import type { StoredHead } from '../api/index.ts';
import type { AuditEntry, AuditTrail } from './audit-record.ts';
import { AuditWriter, type AuditWriterOptions, type TimedEntry } from './audit-writer.ts';

export interface AuditLogOptions extends AuditWriterOptions {
  /** Keys the digests of arguments. */
  readonly digestKey: Uint8Array;
  /** Told when records find no room, and when they do again. */
  readonly onFull: (isFull: boolean) => void;
  readonly now: () => number;
  readonly log: Logger;
}

/** Records that wait for room; then they are counted. */
const maxWaiting = 50_000;
/** Records that are written at once. */
const maxBatch = 1_000;
/** What was written is on disk after this time, milliseconds. */
const syncAfterMs = 1_000;
/** How long a disk that took nothing is left alone, milliseconds. */
const retryAfterMs = 2_000;
const digestCharacters = 32;

/**
 * Takes entries without waiting, writes them in batches and synchronises them within a second. A
 * disk that is full holds nobody up: entries wait, then are counted, and the log says how many it
 * lacks.
 */
export class AuditLog implements AuditTrail {
  readonly #options: AuditLogOptions;
  readonly #writer: AuditWriter;
  #waiting: TimedEntry[] = [];
  readonly #steps = new StepScheduler();
  #lost = 0;
  #isFull = false;
  #isClosed = false;
  /** Writes and synchronisations come one after the other. */
  readonly #turn = new Semaphore(1);
  #isWriting = false;
  #timer: NodeJS.Timeout | undefined;

  private constructor(options: AuditLogOptions, writer: AuditWriter) {
    this.#options = options;
    this.#writer = writer;
  }

  /** Opens the log where it ended, and tells in it how it did. */
  static async open(options: AuditLogOptions): Promise<AuditLog> {
    const { writer, findings } = await AuditWriter.open(options);
    const audit = new AuditLog(options, writer);
    for (const { action, detail } of findings) {
      options.log.warn({ action, reason: detail }, 'audit log was not as it was left');
    }
    for (const finding of findings) audit.append(finding);
    return audit;
  }

  /** Whether records find no room. */
  get isFull(): boolean {
    return this.#isFull;
  }

  append(entry: AuditEntry): void {
    if (this.#isClosed) return;
    if (this.#waiting.length >= maxWaiting) {
      this.#lost += 1;
      return;
    }
    this.#waiting.push({ entry, time: this.#options.now() });
    if (!this.#isWriting && !this.#isFull) this.#write();
  }

  async digest(value: unknown): Promise<string> {
    const mac = createHmac('sha256', this.#options.digestKey);
    if (isSmallJson(value)) mac.update(describe(value));
    else await this.#steps.run(writeJsonInSteps(value, described, (piece) => mac.update(piece)));
    return mac.digest('hex').slice(0, digestCharacters);
  }

  /** Resolves with the head when all that was appended is on disk. @throws the system's error */
  async flush(): Promise<StoredHead> {
    let head = this.#writer.head;
    await this.#turn.run(async () => {
      await this.#writeWaiting();
      await this.#writer.sync();
      head = this.#writer.head;
    });
    return head;
  }

  /** Writes what waits, if there is room. May be called twice. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#timer);
    try {
      await this.flush();
    } catch (error) {
      this.#options.log.error({ err: error }, 'audit log was not written to its end');
    }
    await this.#writer.close();
  }

  /** Begins after what is under way now: a burst becomes one write. */
  #write(): void {
    this.#isWriting = true;
    setImmediate(() => {
      this.#turn
        .run(() => this.#writeWaiting())
        .then(
          () => this.#room(),
          (error: unknown) => this.#noRoom(error),
        )
        .finally(() => {
          this.#isWriting = false;
          // What came while the last batch was being finished.
          if (this.#waiting.length > 0 && !this.#isFull) this.#write();
        });
    });
  }

  async #writeWaiting(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, maxBatch);
      await this.#writer.write(batch);
      this.#waiting = this.#waiting.slice(batch.length);
      if (this.#waiting.length === 0 && this.#lost > 0) this.#tellLost();
    }
  }

  #tellLost(): void {
    const time = this.#options.now();
    const detail = `${this.#lost} records found no room and are lost`;
    const who = { kind: 'master', name: '' } as const;
    this.#waiting.push({ entry: { who, action: 'audit.gap', outcome: 'failed', detail }, time });
    this.#lost = 0;
  }

  #room(): void {
    if (this.#isFull) {
      this.#isFull = false;
      this.#options.onFull(false);
    }
    this.#plan(syncAfterMs, () => {
      this.#turn.run(() => this.#writer.sync()).catch((error: unknown) => this.#noRoom(error));
    });
  }

  #noRoom(error: unknown): void {
    if (!this.#isFull) {
      this.#isFull = true;
      this.#options.log.error({ err: error }, 'audit log cannot be written: records wait');
      this.#options.onFull(true);
    }
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#plan(retryAfterMs, () => this.#write());
  }

  #plan(afterMs: number, work: () => void): void {
    if (this.#timer !== undefined || this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      work();
    }, afterMs).unref();
  }
}

function describe(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'string') return JSON.stringify(value);
  return JSON.stringify(value, (_, part: unknown) => plain(part)) ?? 'nothing';
}

/** Bytes and maps are told apart; what no form of text exists for has its type's. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return `bytes ${Buffer.from(value).toString('base64')}`;
  if (value instanceof Map) return [...value];
  return typeof value === 'bigint' ? `integer ${value}` : value;
}

/** The same in steps. */
const described: JsonForm = {
  write: (value) => (value === undefined ? 'null' : describe(value)),
  open: (given) => {
    const value = plain(given);
    if (typeof value === 'string' || Array.isArray(value)) return value;
    if (typeof value !== 'object' || value === null) return undefined;
    return { members: Object.entries(value).filter(([, item]) => item !== undefined) };
  },
  comma: ',',
  colon: ':',
};
