/**
 * Results that all minions with equal inputs share, in memory and in the store. The owner of a
 * result is the minion for which it was rendered.
 */

import { hash } from 'node:crypto';
import Type from 'typebox';
import type { Auth } from '#master';
import type { WireMap } from '#minion-protocol';
import { FairTable, type Limit } from '#runtime';
import { Bytes, defineRow, type Key, type Operation, type Store } from '#store';
import { saltLimits } from '../limits.ts';
import { OwnedCache } from '../owned-cache.ts';
import { markOfGrain } from '../render/grains.ts';
import type { LatePath } from '../render/late-grains.ts';
import type { PillarSources } from '../render/pillar-sources.ts';
import { type Input, type Inputs, InputTree } from './input-tree.ts';
import { areFilesCurrent } from './pillar-cache.ts';
import {
  type CachedPillar,
  packCached,
  StoredDependencies,
  unpackCached,
} from './pillar-records.ts';

/**
 * A shared result before it is added to the table. Its packed data contain placeholders for values
 * of grains that differ between minions (see late-grains.ts).
 */
export interface SharedResult extends CachedPillar {
  /** Fingerprint of the inputs that are known before rendering. */
  readonly root: string;
  /** Minion for which the result was rendered. */
  readonly owner: string;
  /**
   * Paths of the grain values that replace the placeholders in the packed data. A placeholder with
   * the number n stands for the element n of this list.
   */
  readonly late: readonly LatePath[];
  /** Random text at the beginning of each placeholder in the packed data. */
  readonly secret: string;
}

/**
 * Shared result as the table of shared results stores it: with a name, and with the inputs that the
 * rendering has read.
 */
export interface KeptResult extends SharedResult, Inputs {
  readonly name: string;
}

/** Schema of the encrypted rows `<table>/<name>/<owner>` in the store. */
const sharedRow = defineRow({
  name: 'shared pillar',
  schema: Type.Object({
    name: Type.String(),
    root: Type.String(),
    owner: Type.String(),
    late: Type.Array(Type.Array(Type.Union([Type.String(), Type.Number()]))),
    secret: Type.String(),
    from: StoredDependencies,
    pillar: Bytes,
    /**
     * Pillar compiled without the minion's grains, in packed form. Absent if it equals `pillar`.
     */
    proven: Type.Optional(Bytes),
  }),
});

/**
 * Store for shared results, with the functions for encrypting rows and for finding rows of deleted
 * minions.
 */
export interface ResultStore {
  readonly store: Store;
  readonly seal: Auth['seal'];
  /**
   * Whether an id has a key in any state. When results are loaded, the results of owners without a
   * key are deleted.
   */
  readonly hasKey: (id: string) => boolean;
}

export interface SharedResultsOptions {
  /** Current files and file lists, to check whether results are still valid. */
  readonly sources: PillarSources;
  /** Limits on the number of results, in total and per owner. */
  readonly limit: Limit;
  /** Name of the table in the store. */
  readonly table: string;
  /** Store for the results. Default: results are only in memory. */
  readonly persistent?: ResultStore | undefined;
  /** Returns milliseconds since 1970. */
  readonly now: () => number;
}

/** Maximum size of a result in the store, in bytes. Encryption takes about 13 ms per MiB. */
const maxStoredBytes = 2 * 1024 * 1024;
/**
 * Time without use after which a result may be evicted for a result of another owner, in
 * milliseconds.
 */
const unusedMs = 600_000;

interface Entry {
  readonly result: KeptResult;
  usedAt: number;
}

/**
 * Results that minions with equal inputs share, in memory and in the store. The owner of a result
 * is the minion for which it was rendered. If the table is full, a new result replaces a result of
 * the owner that has the most results.
 */
export class SharedResults {
  readonly #options: SharedResultsOptions;
  readonly #tree = new InputTree<KeptResult>();
  readonly #entries: FairTable<Entry>;
  /** Results in the order of their last use. Their total size is limited. */
  readonly #inOrder: OwnedCache<KeptResult>;
  #loading: Promise<void> | undefined;

  constructor(options: SharedResultsOptions) {
    this.#options = options;
    this.#entries = new FairTable(options.limit, {
      onEvict: (_name, { result }) => this.#forgetEvicted(result),
    });
    this.#inOrder = new OwnedCache<KeptResult>(saltLimits.sharedPillarBytes, {
      sizeOf,
      dispose: (result) => {
        if (this.#entries.peek(result.name)?.result === result) this.#forgetEvicted(result);
      },
    });
  }

  /** Deletes all results of a table from the store. */
  static async clear(store: Store, table: string): Promise<void> {
    await store.write([{ op: 'delete-prefix', prefix: [table] }]);
  }

  /**
   * Returns the result for a minion with these grains, if the files of the result are unchanged.
   */
  async find(root: string, grains: WireMap): Promise<KeptResult | undefined> {
    await this.#load();
    const result = this.#tree.find(root, (name) => markText(markOfGrain(grains, name)));
    if (result === undefined) return undefined;
    if (!(await areFilesCurrent(result.madeFrom, this.#options.sources))) return undefined;
    const entry = this.#entries.get(result.name);
    if (entry !== undefined) entry.usedAt = this.#options.now();
    this.#inOrder.get(result.name);
    return result;
  }

  /**
   * Adds a result in memory. Returns `undefined` if the result alone exceeds the limit of bytes, or
   * if the table is full and no result may be evicted.
   */
  add(shared: SharedResult): KeptResult | undefined {
    const result = toKept(shared);
    return this.#note(result) ? result : undefined;
  }

  /**
   * Writes an added result to the store. Omits results above 2 MiB.
   * @throws StoreError
   */
  async store(result: KeptResult): Promise<void> {
    const { persistent } = this.#options;
    if (persistent === undefined) return;
    const { pillar, proven, ...stored } = packCached(result);
    const { name, root, owner, secret } = result;
    const late = result.late.map((path) => [...path]);
    const plain = sharedRow.encode({
      name,
      root,
      owner,
      secret,
      late,
      pillar,
      ...stored,
      ...(proven && { proven }),
    });
    if (plain.length > maxStoredBytes) return;
    const value = persistent.seal.seal(plain);
    await persistent.store.write([{ op: 'put', key: this.#keyOf(result), value }]);
  }

  /**
   * Deletes the results of an owner.
   * @throws StoreError
   */
  async forget(owner: string): Promise<void> {
    await this.#load();
    if (this.#entries.countOf(owner) === 0) return;
    const own = this.results().filter((result) => result.owner === owner);
    for (const result of own) this.#remove(result);
    await this.#deleteAll(own);
  }

  /** Returns all results in memory, even if their files have changed since. */
  results(): KeptResult[] {
    return Array.from(this.#entries.values(), ({ result }) => result);
  }

  /** Returns the results whose files have not changed since the rendering. */
  async current(): Promise<KeptResult[]> {
    await this.#load();
    const { sources } = this.#options;
    const all = this.results().map(async (result) => {
      return (await areFilesCurrent(result.madeFrom, sources)) ? [result] : [];
    });
    return (await Promise.all(all)).flat();
  }

  /**
   * Adds a result in memory. Returns `false` if the result alone exceeds the limit of bytes, or if
   * the table is full and no result may be evicted.
   */
  #note(result: KeptResult): boolean {
    const entry = { result, usedAt: this.#options.now() };
    this.#removeUnusedFor(result.owner);
    if (!this.#entries.trySet(result.owner, result.name, entry)) return false;
    for (const replaced of this.#tree.add(result)) {
      if (replaced.name !== result.name) this.#forgetEvicted(replaced);
      else if (replaced.owner !== result.owner) this.#deleteLater(replaced);
    }
    if (this.#inOrder.set(result.owner, result.name, result)) return true;
    this.#forgetEvicted(result);
    return false;
  }

  /**
   * Removes the least recently used result to make space for an owner's first result, if it was not
   * used for ten minutes. Does nothing if the table has space, or if another owner has more than
   * one result.
   */
  #removeUnusedFor(owner: string): void {
    const isFull = this.#entries.size >= (this.#options.limit.total ?? Infinity);
    if (!isFull || this.#entries.victimOf(owner) !== undefined) return;
    for (const name of this.#inOrder.rkeys()) {
      const entry = this.#entries.peek(name);
      const isUnused = entry !== undefined && this.#options.now() - entry.usedAt > unusedMs;
      if (isUnused) this.#forgetEvicted(entry.result);
      return;
    }
  }

  #remove(result: KeptResult): void {
    this.#tree.delete(result);
    this.#entries.delete(result.name);
    this.#inOrder.delete(result.name);
  }

  #forgetEvicted(result: KeptResult): void {
    this.#remove(result);
    this.#deleteLater(result);
  }

  /**
   * Starts to delete a result from the store. If the deletion fails, the next start of the master
   * reads the result again.
   */
  #deleteLater(result: KeptResult): void {
    this.#deleteAll([result]).catch(() => {});
  }

  async #deleteAll(results: readonly KeptResult[]): Promise<void> {
    const operations = results.map((result): Operation => {
      return { op: 'delete', key: this.#keyOf(result) };
    });
    if (operations.length > 0) await this.#options.persistent?.store.write(operations);
  }

  #keyOf({ name, owner }: KeptResult): Key {
    return [this.#options.table, name, owner];
  }

  #load(): Promise<void> {
    this.#loading ??= this.#read();
    return this.#loading;
  }

  /**
   * Reads the stored results. Deletes rows that cannot be read, and rows of owners without a key.
   */
  async #read(): Promise<void> {
    const { persistent, table } = this.#options;
    if (persistent === undefined) return;
    const stale: Operation[] = [];
    for await (const { key, value } of persistent.store.list([table])) {
      if (key.length !== 3) continue;
      const result = this.#open(key, value);
      if (result === undefined || !this.#note(result)) stale.push({ op: 'delete', key });
    }
    if (stale.length > 0) await persistent.store.write(stale);
  }

  #open(key: Key, sealed: Uint8Array): KeptResult | undefined {
    const { persistent } = this.#options;
    try {
      const value = persistent?.seal.open(sealed);
      if (value === undefined) return undefined;
      const { name, root, owner, secret, late, ...stored } = sharedRow.decode({ key, value });
      if (persistent?.hasKey(owner) !== true) return undefined;
      const result = toKept({ root, owner, secret, late, ...unpackCached(stored) });
      const isAtItsPlace = name === result.name && key[1] === name && key[2] === owner;
      return isAtItsPlace ? result : undefined;
    } catch {
      return undefined;
    }
  }
}

function toKept(result: SharedResult): KeptResult {
  const inputs = Array.from(
    result.madeFrom.grains.values,
    ([name, mark]): Input => [name, markText(mark)],
  );
  const name = hash('sha256', JSON.stringify([result.root, inputs]));
  return { ...result, inputs, name };
}

function markText(mark: Buffer | null): string {
  return mark === null ? '' : `=${mark.toString('base64')}`;
}

/** Memory overhead of a result, in bytes. */
const overhead = 1000;

function sizeOf({ pillar, proven, madeFrom, inputs }: KeptResult): number {
  const packed = pillar.length + (proven === pillar ? 0 : proven.length);
  const { files, lists } = madeFrom;
  return overhead + packed + 200 * (files.length + lists.length + inputs.length);
}
