import { hash } from 'node:crypto';
import { KeyedMutex } from '#runtime';
import { type Key, type Operation, type Store, tryToWrite } from '#store';
import { jobLimits } from './limits.ts';

/**
 * Size of the stored mark of a request, in bytes. Short marks are sufficient, because a minion can
 * cause collisions only among its own requests.
 */
const markBytes = 8;
const maxMarks = jobLimits.requestMarks.perOwner ?? 0;

export interface RequestMarksOptions {
  readonly store: Store;
  /** First segment of the keys under which the store contains the marks of processed requests. */
  readonly root: string;
  /** Time for which the marks of a minion are stored after its last request, in milliseconds. */
  readonly keepMs: number;
  readonly now: () => number;
}

/**
 * Identifiers (marks) of the latest processed requests of each minion. The store has one row for
 * each minion. The row has a limited size, because a minion can send any number of requests.
 */
export class RequestMarks {
  readonly #options: RequestMarksOptions;
  readonly #mutex = new KeyedMutex();

  constructor(options: RequestMarksOptions) {
    this.#options = options;
  }

  /**
   * Whether the identifier (mark) of a request is stored, so that the request was already
   * processed.
   */
  async has(minionId: string, mark: string): Promise<boolean> {
    const row = await this.#options.store.get(this.#keyOf(minionId));
    return row !== undefined && includes(row.value, packed(mark));
  }

  /**
   * Writes operations and the identifier (mark) of a request in one transaction.
   * @param mark - identifier of the request. `undefined`: repetitions of the request are not
   * recognized
   * @returns `false` if nothing was written. Then either the mark was already stored, or a row of
   * `operations` had another revision than expected
   */
  async write(
    minionId: string,
    mark: string | undefined,
    operations: readonly Operation[],
  ): Promise<boolean> {
    if (mark === undefined) return tryToWrite(this.#options.store, operations);
    return this.#mutex.run(minionId, () => this.#write(minionId, packed(mark), operations));
  }

  async #write(
    minionId: string,
    mark: Uint8Array,
    operations: readonly Operation[],
  ): Promise<boolean> {
    const { store, now, keepMs } = this.#options;
    const key = this.#keyOf(minionId);
    for (;;) {
      const row = await store.get(key);
      const known = row?.value ?? new Uint8Array(0);
      if (includes(known, mark)) return false;
      const value = Buffer.concat([mark, known]).subarray(0, maxMarks * markBytes);
      const revision = row?.revision ?? 0;
      const expiresAt = now() + keepMs;
      const put: Operation = { op: 'put', key, value, expiresAt, ifRevision: revision };
      if (await tryToWrite(store, [...operations, put])) return true;
      // Another member of the cluster may have changed the marks meanwhile.
      if (((await store.get(key))?.revision ?? 0) === revision) return false;
    }
  }

  #keyOf(minionId: string): Key {
    return [this.#options.root, minionId];
  }
}

function packed(mark: string): Uint8Array {
  return hash('sha256', mark, 'buffer').subarray(0, markBytes);
}

function includes(marks: Uint8Array, mark: Uint8Array): boolean {
  for (let at = 0; at < marks.length; at += markBytes) {
    if (Buffer.compare(marks.subarray(at, at + markBytes), mark) === 0) return true;
  }
  return false;
}
