import { randomUUID } from 'node:crypto';
import { retryDelayMs, sleepUntilAborted } from '#runtime';
import { StoreError } from '#store';
import { type LogCipher, sealOverheadBytes } from './cipher.ts';
import { type EntryContent, encodeEntry, entryHeadBytes, transactionHeadBytes } from './entry.ts';
import { LogUnavailableError, type TransactionLog } from './transaction-log.ts';
import type { AppliedEntry, LogView, TransactionResult } from './view.ts';

export interface AppenderOptions {
  readonly log: TransactionLog;
  readonly view: LogView;
  readonly cipher: LogCipher;
  readonly member: string;
  readonly now: () => number;
  /** Maximum time that a write waits for the log, in milliseconds. */
  readonly writeTimeoutMs: number;
  /**
   * Called if the log has lost entries. The appender detects this when the log stores a new entry
   * at a position that this store has already applied.
   */
  readonly onBehind: (position: number) => void;
}

/** Result and position of an applied transaction. */
interface AppliedTransaction {
  readonly result: TransactionResult;
  readonly position: number;
}

interface PendingTransaction {
  readonly bytes: Buffer;
  readonly resolve: (applied: AppliedTransaction) => void;
  readonly reject: (error: unknown) => void;
}

interface SealedEntry {
  readonly counter: number;
  readonly bytes: Buffer;
}

/**
 * Maximum number of entries that are being appended at the same time. Further transactions wait,
 * and then share one entry. The number is small, because every member must process each entry. A
 * shared entry causes less work than several entries.
 */
const maxEntriesInFlight = 3;
const maxTransactionsPerEntry = 128;
const retryDelays = { initialDelayMs: 50, maxDelayMs: 2000 };

/**
 * Appends transactions to the log and returns their results. If several are waiting, they share an
 * entry.
 */
export class Appender {
  readonly #options: AppenderOptions;
  readonly #sent = new Map<number, readonly PendingTransaction[]>();
  readonly #ending = new AbortController();
  #queue: PendingTransaction[] = [];
  #inFlight = 0;
  /**
   * Time since which all attempts to append have failed, on the clock of `performance.now()`.
   * `undefined` after a success.
   */
  #failingSince: number | undefined;

  constructor(options: AppenderOptions) {
    this.#options = options;
  }

  /** Session id, which is new each time the store is opened. Entries contain it. */
  get session(): string {
    return this.#options.cipher.session.toString('hex');
  }

  /**
   * Time since the log began to reject this member's entries, in milliseconds. 0 if it accepts
   * them.
   */
  get failingMs(): number {
    return this.#failingSince === undefined ? 0 : performance.now() - this.#failingSince;
  }

  /**
   * Appends a transaction. The promise resolves when this store has applied the transaction
   * durably.
   * @throws StoreError ERR_STORE_TOO_LARGE or ERR_STORE_UNAVAILABLE if nothing was written;
   * ERR_CLUSTER_OUTCOME if it may still be written
   */
  transaction(bytes: Buffer): Promise<AppliedTransaction> {
    const room = this.#room();
    if (bytes.length + transactionHeadBytes > room) {
      const message = `the write has ${bytes.length} bytes; an entry of the cluster log can contain at most ${room}`;
      return Promise.reject(new StoreError('ERR_STORE_TOO_LARGE', message));
    }
    if (this.failingMs > this.#options.writeTimeoutMs) {
      const seconds = Math.round(this.failingMs / 1000);
      const message = `the cluster log has accepted no write for ${seconds} s: nothing was written`;
      return Promise.reject(new StoreError('ERR_STORE_UNAVAILABLE', message));
    }
    return new Promise((resolve, reject) => {
      this.#queue.push({ bytes, resolve, reject });
      this.#flush();
    });
  }

  /**
   * Appends an entry with this content. The promise resolves with its position when the log has
   * stored it.
   * @throws StoreError ERR_CLUSTER_OUTCOME
   */
  async append(content: EntryContent): Promise<number> {
    return await this.#appendSealed(this.#seal(content));
  }

  /**
   * Settles the promises of the transactions in an applied entry, if this session has written the
   * entry.
   */
  settle({ counter, position, results }: AppliedEntry): void {
    const sent = this.#sent.get(counter);
    if (sent === undefined) return;
    this.#sent.delete(counter);
    for (const [index, { resolve, reject }] of sent.entries()) {
      const result = results?.[index];
      if (result !== undefined) resolve({ result, position });
      else
        reject(
          new StoreError(
            'ERR_STORE_UNAVAILABLE',
            'the write reached the cluster log too late: nothing was written',
          ),
        );
    }
  }

  /** Rejects all waiting transactions, and stops. */
  fail(error: StoreError): void {
    this.#ending.abort();
    for (const { reject } of this.#queue.splice(0)) reject(error);
    for (const { reject } of [...this.#sent.values()].flat()) reject(error);
    this.#sent.clear();
  }

  #flush(): void {
    while (this.#queue.length > 0 && this.#inFlight < maxEntriesInFlight) {
      this.#inFlight += 1;
      void this.#send(this.#takeBatch()).finally(() => {
        this.#inFlight -= 1;
        this.#flush();
      });
    }
  }

  #room(): number {
    return this.#options.log.maxEntryBytes - sealOverheadBytes - entryHeadBytes;
  }

  #takeBatch(): PendingTransaction[] {
    let room = this.#room();
    const count = this.#queue.findIndex(({ bytes }, index) => {
      room -= bytes.length + transactionHeadBytes;
      return index >= maxTransactionsPerEntry || room < 0;
    });
    return this.#queue.splice(0, count < 0 ? this.#queue.length : count);
  }

  /**
   * Sends an entry with these transactions, and repeats this until the log has stored it. If the
   * time limit is reached first, the transactions are rejected. The returned promise never rejects.
   */
  async #send(pending: readonly PendingTransaction[]): Promise<void> {
    const transactions = pending.map(({ bytes }) => bytes);
    const sealed = this.#seal({ kind: 'transactions', transactions });
    this.#sent.set(sealed.counter, pending);
    try {
      await this.#appendSealed(sealed);
    } catch (error) {
      // Another attempt may have succeeded, and the entry may already be applied.
      if (!this.#sent.delete(sealed.counter)) return;
      for (const { reject } of pending) reject(error);
    }
  }

  #seal(content: EntryContent): SealedEntry {
    const { view, cipher, member, now } = this.#options;
    const { log, position, hash } = view.state;
    const known = { log, position, hash };
    return cipher.seal(encodeEntry({ member, time: now(), known, content }));
  }

  /**
   * Appends an encrypted entry, and repeats this until the time limit.
   * @throws StoreError ERR_CLUSTER_OUTCOME
   */
  async #appendSealed(sealed: SealedEntry): Promise<number> {
    const { log, view, writeTimeoutMs } = this.#options;
    const start = performance.now();
    const passed = view.state.position;
    // The log ignores an entry whose id it knows, so no client of the log may guess the id.
    const id = randomUUID();
    for (let failures = 1; ; failures += 1) {
      try {
        const position = await log.append(id, sealed.bytes);
        this.#failingSince = undefined;
        if (position <= passed) this.#options.onBehind(position);
        return position;
      } catch (cause) {
        if (!(cause instanceof LogUnavailableError)) throw cause;
        this.#failingSince ??= start;
        if (performance.now() - start > writeTimeoutMs || this.#ending.signal.aborted) {
          const message = `the log did not confirm a write (${cause.message}): it may still take effect`;
          throw new StoreError('ERR_CLUSTER_OUTCOME', message, { cause });
        }
        const delay = retryDelayMs(failures, retryDelays, Math.random);
        await sleepUntilAborted(delay, this.#ending.signal);
      }
    }
  }
}
