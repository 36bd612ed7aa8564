import { RequestMarks } from '#master';
import { packLocalWithin, unpackLocal, type WireMap } from '#minion-protocol';
import { KeyedMutex } from '#runtime';
import type { Key, Operation, Store } from '#store';

const root = 'mine';
const markRoot = 'mine-marks';
/** Text that sorts after all keys, used as the end of key ranges. */
const last = '\u{10ffff}';
/**
 * Number of bytes that are counted for each value towards `mine_bytes`, in addition to its name and
 * content. Empty values are therefore limited, too.
 */
const overheadBytes = 64;
const maxNameBytes = 256;

export interface MineStoreOptions {
  readonly store: Store;
  /**
   * Whether the mine stores anything. True if one of the options `minion_data_cache` and
   * `enforce_mine_cache` is set.
   */
  readonly isOn: boolean;
  /**
   * `mine_bytes`: maximum total size of the mine values of one minion, including their names, in
   * bytes.
   */
  readonly maxBytes: number;
  /** `mine_value_bytes`: maximum size of one value, in bytes. */
  readonly maxValueBytes: number;
  /**
   * Time for which the ids of processed requests are stored, in milliseconds. During this time, a
   * repeated request is not processed again.
   */
  readonly keepMarksMs: number;
  readonly now: () => number;
}

/** Values that a minion adds to its mine. */
export interface MineUpdate {
  /** Values by function name, in the form in which the minion sent them. */
  readonly data: WireMap;
  /** Whether the previous values are deleted first. */
  readonly clear: boolean;
}

/** Packed value for a mine, and the name of the function that produced it. */
export interface PackedMineValue {
  readonly fun: string;
  readonly bytes: Uint8Array;
}

/**
 * Mines of the minions. The store has a row for each value. A minion can change only its own mine.
 * Writes of one minion run one after the other, because concurrent writes could together exceed the
 * size limits.
 */
export class MineStore {
  readonly #options: MineStoreOptions;
  readonly #mutex = new KeyedMutex();
  readonly #marks: RequestMarks;

  constructor(options: MineStoreOptions) {
    this.#options = options;
    const { store, keepMarksMs, now } = options;
    this.#marks = new RequestMarks({ store, root: markRoot, keepMs: keepMarksMs, now });
  }

  /**
   * Writes values to a minion's mine. They are durable when the promise resolves.
   * @param mark - id of the request; if this request was already processed, nothing changes
   * @returns names of the values that were not stored, because they or the whole mine would be too
   * large
   */
  async update(
    minionId: string,
    update: MineUpdate,
    mark: string | undefined,
  ): Promise<readonly string[]> {
    if (!this.#options.isOn) return [];
    return this.#mutex.run(minionId, () => this.#update(minionId, update, mark));
  }

  /** Deletes the value of one function from a minion's mine. */
  async delete(minionId: string, fun: string, mark: string | undefined): Promise<void> {
    if (!isName(fun)) return;
    await this.#mutex.run(minionId, () =>
      this.#write(minionId, [{ op: 'delete', key: [root, minionId, fun] }], mark),
    );
  }

  /** Deletes all values of a minion's mine. */
  async flush(minionId: string, mark?: string): Promise<void> {
    await this.#mutex.run(minionId, () =>
      this.#write(minionId, [{ op: 'delete-prefix', prefix: [root, minionId] }], mark),
    );
  }

  /** Returns a minion's packed value for a function, or `undefined`. */
  async find(minionId: string, fun: string): Promise<PackedMineValue | undefined> {
    if (!isName(fun)) return undefined;
    const entry = await this.#options.store.get([root, minionId, fun]);
    return entry && { fun, bytes: entry.value };
  }

  /**
   * Returns all values of a minion's mine by function name, in the form in which the minion sent
   * them.
   */
  async all(minionId: string): Promise<WireMap> {
    const mine: WireMap = Object.create(null);
    for await (const { key, value } of this.#options.store.list([root, minionId])) {
      mine[key.at(-1) ?? ''] = unpackLocal(value);
    }
    return mine;
  }

  /** Deletes all data of a minion whose key was deleted. */
  async forget(minionId: string): Promise<void> {
    await this.#mutex.run(minionId, async () => {
      await this.#options.store.write([
        { op: 'delete-prefix', prefix: [root, minionId] },
        { op: 'delete-prefix', prefix: [markRoot, minionId] },
      ]);
    });
  }

  /** Yields the minions that have values in their mine. */
  async *owners(): AsyncIterableIterator<string> {
    for (let after: Key | undefined; ; ) {
      const [owner] = await this.#first(after);
      if (owner === undefined) return;
      yield owner;
      after = [root, owner, last];
    }
  }

  async #first(after: Key | undefined): Promise<string[]> {
    const options = { limit: 1, ...(after === undefined ? {} : { after }) };
    const owners: string[] = [];
    for await (const { key } of this.#options.store.list([root], options))
      owners.push(key[1] ?? '');
    return owners;
  }

  async #update(
    minionId: string,
    { data, clear }: MineUpdate,
    mark: string | undefined,
  ): Promise<readonly string[]> {
    const { maxBytes, maxValueBytes } = this.#options;
    const sizes = clear ? new Map<string, number>() : await this.#sizes(minionId);
    let total = [...sizes.values()].reduce((sum, size) => sum + size, 0);
    const operations: Operation[] = [];
    const leftOut: string[] = [];
    if (clear) operations.push({ op: 'delete-prefix', prefix: [root, minionId] });
    for (const [fun, value] of Object.entries(data)) {
      const bytes = isName(fun) ? packLocalWithin(value, maxValueBytes) : undefined;
      const grown = total - (sizes.get(fun) ?? 0) + (bytes === undefined ? 0 : sizeOf(fun, bytes));
      if (bytes === undefined || grown > maxBytes) {
        leftOut.push(fun);
        continue;
      }
      total = grown;
      operations.push({ op: 'put', key: [root, minionId, fun], value: bytes });
    }
    await this.#write(minionId, operations, mark);
    return leftOut;
  }

  async #sizes(minionId: string): Promise<Map<string, number>> {
    const sizes = new Map<string, number>();
    for await (const { key, value } of this.#options.store.list([root, minionId])) {
      const fun = key.at(-1) ?? '';
      sizes.set(fun, sizeOf(fun, value));
    }
    return sizes;
  }

  /** Writes the operations and the id of the request in one transaction. */
  async #write(
    minionId: string,
    operations: readonly Operation[],
    mark: string | undefined,
  ): Promise<void> {
    if (operations.length > 0) await this.#marks.write(minionId, mark, operations);
  }
}

function sizeOf(fun: string, bytes: Uint8Array): number {
  return overheadBytes + Buffer.byteLength(fun) + bytes.length;
}

/** Whether a text is allowed as the name of a mine function. */
function isName(fun: string): boolean {
  const size = Buffer.byteLength(fun);
  return size > 0 && size <= maxNameBytes && !/\p{Surrogate}/u.test(fun) && fun !== last;
}
