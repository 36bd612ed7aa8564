import { createHmac } from 'node:crypto';
import type { Logger } from 'pino';
import { isSmallJson, type JsonForm, Mutex, StepScheduler, writeJsonInSteps } from '#runtime';
import type { StoredHead } from '../api/index.ts';
import type { AuditEntry, AuditTrail } from './audit-record.ts';
import { AuditWriter, type AuditWriterOptions, type TimedEntry } from './audit-writer.ts';
import { auditLimits } from './limits.ts';

export interface AuditLogOptions extends AuditWriterOptions {
  /** HMAC key for the digests of arguments. */
  readonly digestKey: Uint8Array;
  /**
   * Called with `true` when records can no longer be written, and with `false` when they can be
   * written again.
   */
  readonly onFull: (isFull: boolean) => void;
  readonly now: () => number;
  readonly log: Logger;
}

const { total: maxWaiting = 0 } = auditLimits.waitingRecords;
/** Maximum number of records in one write. */
const maxBatch = 1_000;
/** Maximum delay between writing records and synchronising them to disk, in milliseconds. */
const syncAfterMs = 1_000;
/** Delay before a failed write is repeated, in milliseconds. */
const retryAfterMs = 2_000;
const digestCharacters = 32;

/**
 * The audit log of a running master. It accepts entries without making the caller wait, writes them
 * in batches, and synchronises them to disk within a second. While the disk is full, entries are
 * queued. When the queue is full, entries are only counted, and the log later records how many are
 * missing.
 */
export class AuditLog implements AuditTrail {
  readonly #options: AuditLogOptions;
  readonly #writer: AuditWriter;
  #waiting: TimedEntry[] = [];
  readonly #steps = new StepScheduler();
  #lost = 0;
  #isFull = false;
  #isClosed = false;
  /** Serialises writes and synchronisations. */
  readonly #turn = new Mutex();
  #isWriting = false;
  #timer: NodeJS.Timeout | undefined;

  private constructor(options: AuditLogOptions, writer: AuditWriter) {
    this.#options = options;
    this.#writer = writer;
  }

  /** Opens the log at its end, and records the problems found in it as entries. */
  static async open(options: AuditLogOptions): Promise<AuditLog> {
    const { writer, findings } = await AuditWriter.open(options);
    const audit = new AuditLog(options, writer);
    for (const { action, detail } of findings) {
      options.log.warn(
        { action, reason: detail },
        'the audit log was changed or damaged since the last run of the master',
      );
    }
    for (const finding of findings) audit.append(finding);
    return audit;
  }

  /** Whether records currently cannot be written. */
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

  /**
   * Waits until all appended records are on disk. Resolves with the sequence number and hash of the
   * last record.
   * @throws the system error if the records cannot be written
   */
  async flush(): Promise<StoredHead> {
    let head = this.#writer.head;
    await this.#turn.run(async () => {
      await this.#writeWaiting();
      await this.#writer.sync();
      head = this.#writer.head;
    });
    return head;
  }

  /** Writes the pending records if possible, and closes the log. May be called more than once. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#timer);
    try {
      await this.flush();
    } catch (error) {
      this.#options.log.error(
        { err: error },
        'the audit log was closed before all records were written; the unwritten records are lost',
      );
    }
    await this.#writer.close();
  }

  /**
   * Writes pending records after the current turn of the event loop, so that a burst of entries
   * becomes one write.
   */
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
          // Entries may have arrived while the last batch was being written.
          if (this.#waiting.length > 0 && !this.#isFull) this.#write();
        });
    });
  }

  async #writeWaiting(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, maxBatch);
      await this.#writer.write(batch);
      this.#waiting = this.#waiting.slice(batch.length);
      if (this.#waiting.length === 0 && this.#lost > 0) this.#reportLost();
    }
  }

  #reportLost(): void {
    const time = this.#options.now();
    const detail = `${this.#lost} records could not be written and are lost`;
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
      this.#options.log.error(
        { err: error },
        'cannot write the audit log; records wait in memory until the disk is writable',
      );
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

/**
 * Converts a value to a form that `JSON.stringify` accepts, for the digest. Bytes and large
 * integers become strings with a prefix. The prefix distinguishes them from strings with the same
 * content. A `Map` becomes a list of pairs.
 */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return `bytes ${Buffer.from(value).toString('base64')}`;
  if (value instanceof Map) return [...value];
  return typeof value === 'bigint' ? `integer ${value}` : value;
}

/** Writer for large values. It produces the same text as {@link describe}, but in steps. */
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
