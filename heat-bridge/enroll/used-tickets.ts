/**
 * List of used tickets, in a file outside of the store. After the store has been restored from a
 * backup, used tickets therefore stay invalid.
 */

import { type FileHandle, open, readFile } from 'node:fs/promises';
import { writeFileAtomically } from '#runtime';

/**
 * Time for which a used ticket stays in the list after its expiry, in milliseconds. If the clock is
 * set back by less than this time, the ticket therefore stays invalid.
 */
const usedTicketRetentionMs = 7 * 86_400_000;

/**
 * Line of the file: the number of a ticket, and the time until which it stays in the list, in
 * milliseconds since 1970.
 */
const usedTicketLine = /^([A-Za-z0-9_-]{22}) (\d{1,15})$/;

/** Numbers of used tickets. */
export class UsedTickets {
  readonly #file: FileHandle;
  /**
   * Times until which used tickets stay in the list, by number of the ticket, in milliseconds since
   * 1970.
   */
  readonly #numbers: Map<string, number>;
  readonly #now: () => number;
  #waiting: string[] = [];
  #writing: Promise<void> | undefined;

  private constructor(file: FileHandle, numbers: Map<string, number>, now: () => number) {
    this.#file = file;
    this.#now = now;
    this.#numbers = numbers;
  }

  /** Opens the file of used tickets (mode 0600), and removes the lines of expired tickets. */
  static async open(path: string, now: () => number): Promise<UsedTickets> {
    const kept = new Map<string, number>();
    const text = await readFile(path, 'utf8').catch(emptyIfMissing);
    for (const each of text.split('\n')) {
      const [, number = '', until = ''] = usedTicketLine.exec(each) ?? [];
      if (Number(until) > now()) kept.set(number, Number(until));
    }
    await writeFileAtomically(
      path,
      [...kept].map(([it, until]) => `${it} ${until}\n`).join(''),
      0o600,
    );
    return new UsedTickets(await open(path, 'a', 0o600), kept, now);
  }

  has(number: string): boolean {
    return this.#numbers.has(number);
  }

  /**
   * Records a ticket as used. Resolves when the record is on disk.
   * @param expiresAt - expiry of the ticket, in milliseconds since 1970
   */
  async add(number: string, expiresAt: number): Promise<void> {
    const until = expiresAt + usedTicketRetentionMs;
    if (until <= this.#now()) return;
    if (this.#numbers.has(number)) return this.#writing;
    this.#forgetOldest();
    this.#numbers.set(number, until);
    this.#waiting.push(`${number} ${until}\n`);
    while (this.#waiting.length > 0) {
      this.#writing ??= this.#writeWaiting().finally(() => {
        this.#writing = undefined;
      });
      await this.#writing;
    }
  }

  /** Waits for pending writes. */
  async close(): Promise<void> {
    await this.#writing;
    await this.#file.close();
  }

  #forgetOldest(): void {
    for (const [number, until] of this.#numbers) {
      if (until > this.#now()) return;
      this.#numbers.delete(number);
    }
  }

  /** Writes all pending lines, and syncs the file once. */
  async #writeWaiting(): Promise<void> {
    const lines = this.#waiting;
    this.#waiting = [];
    try {
      await this.#file.appendFile(lines.join(''));
      await this.#file.datasync();
    } catch (error) {
      // If the write fails, the next call writes these lines too.
      this.#waiting.unshift(...lines);
      throw error;
    }
  }
}

function emptyIfMissing(error: unknown): string {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return '';
  throw error;
}
