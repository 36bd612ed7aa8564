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
  /** How long a write waits for the log. */
  readonly writeTimeoutMs: number;
  /** An entry got a position that this view has passed. */
  readonly onBehind: (position: number) => void;
}

/** A transaction that was applied, and where. */
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

/** Few: what waits meanwhile shares the next entry, and an entry costs each member more than a write. */
const maxEntriesInFlight = 3;
const maxTransactionsPerEntry = 128;
const retryDelays = { initialDelayMs: 50, maxDelayMs: 2000 };

/** Brings transactions into the log, several in an entry where many wait, and gives their results. */
export class Appender {
  readonly #options: AppenderOptions;
  readonly #sent = new Map<number, readonly PendingTransaction[]>();
  readonly #ending = new AbortController();
  #queue: PendingTransaction[] = [];
  #inFlight = 0;
  /** Since when every attempt failed, by `performance.now()`. */
  #failingSince: number | undefined;

  constructor(options: AppenderOptions) {
    this.#options = options;
  }

  /** Of this opening, as entries have it. */
  get session(): string {
    return this.#options.cipher.session.toString('hex');
  }

  /** How long the log has taken nothing, milliseconds. */
  get failingMs(): number {
    return this.#failingSince === undefined ? 0 : performance.now() - this.#failingSince;
  }

  /**
   * Resolves when a transaction was applied here, and is durable here.
   * @throws StoreError ERR_STORE_TOO_LARGE, ERR_STORE_UNAVAILABLE: nothing was written;
   * ERR_CLUSTER_OUTCOME
   */
  transaction(bytes: Buffer): Promise<AppliedTransaction> {
    const room = this.#room();
    if (bytes.length + transactionHeadBytes > room) {
      const message = `a write of ${bytes.length} bytes; an entry of the log has room for ${room}`;
      return Promise.reject(new StoreError('ERR_STORE_TOO_LARGE', message));
    }
    if (this.failingMs > this.#options.writeTimeoutMs) {
      const seconds = Math.round(this.failingMs / 1000);
      const message = `the log has taken nothing for ${seconds} s: nothing was written`;
      return Promise.reject(new StoreError('ERR_STORE_UNAVAILABLE', message));
    }
    return new Promise((resolve, reject) => {
      this.#queue.push({ bytes, resolve, reject });
      this.#flush();
    });
  }

  /**
   * Appends an entry of its own; resolves with its position when it is in the log.
   * @throws StoreError ERR_CLUSTER_OUTCOME
   */
  async append(content: EntryContent): Promise<number> {
    return await this.#appendSealed(this.#seal(content));
  }

  /** An entry of this session was applied. */
  settle({ counter, position, results }: AppliedEntry): void {
    const sent = this.#sent.get(counter);
    if (sent === undefined) return;
    this.#sent.delete(counter);
    for (const [index, { resolve, reject }] of sent.entries()) {
      const result = results?.[index];
      if (result !== undefined) resolve({ result, position });
      else
        reject(
          new StoreError('ERR_STORE_UNAVAILABLE', 'the write came too late: nothing was kept'),
        );
    }
  }

  /** Nothing is waited for any more. */
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

  /** Ends when the entry is in the log, or was given up. */
  async #send(pending: readonly PendingTransaction[]): Promise<void> {
    const transactions = pending.map(({ bytes }) => bytes);
    const sealed = this.#seal({ kind: 'transactions', transactions });
    this.#sent.set(sealed.counter, pending);
    try {
      await this.#appendSealed(sealed);
    } catch (error) {
      // It may have been applied meanwhile.
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

  /** @throws StoreError ERR_CLUSTER_OUTCOME */
  async #appendSealed(sealed: SealedEntry): Promise<number> {
    const { log, view, writeTimeoutMs } = this.#options;
    const start = performance.now();
    const passed = view.state.position;
    for (let failures = 1; ; failures += 1) {
      try {
        const id = `${this.session}-${sealed.counter}`;
        const position = await log.append(id, sealed.bytes);
        this.#failingSince = undefined;
        if (position <= passed) this.#options.onBehind(position);
        return position;
      } catch (cause) {
        if (!(cause instanceof LogUnavailableError)) throw cause;
        this.#failingSince ??= start;
        if (performance.now() - start > writeTimeoutMs || this.#ending.signal.aborted) {
          const message = `the log did not confirm a write (${cause.message}): it may be kept`;
          throw new StoreError('ERR_CLUSTER_OUTCOME', message, { cause });
        }
        const delay = retryDelayMs(failures, retryDelays, Math.random);
        await sleepUntilAborted(delay, this.#ending.signal);
      }
    }
  }
}
