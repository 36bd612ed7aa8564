/**
 * Counts the bytes that each minion uses in the log of its site, and selects the entries that a
 * full log drops. Each minion and the site itself have a reserve, so that any number of minions
 * together cannot displace the entries of another one, or those of the site.
 */

import Type from 'typebox';
import type { StateArea, StateOperation } from '#master';
import { Budget } from '#runtime';
import { defineRow } from '#store';
import { edgeLimits } from '../limits.ts';
import { type LogClass, logClasses } from './log.ts';

const Count = Type.Integer({ minimum: 0 });

const minionRow = defineRow({
  name: 'minion in the log of a site',
  schema: Type.Object({
    /** Size of the stored entries by class, in bytes. */
    bytes: Type.Object({ alarm: Count, signal: Count, return: Count, fact: Count }),
    /** The field `searched` of {@link MinionShare}, possibly of an earlier time. */
    searched: Type.Object({
      alarm: Type.Optional(Count),
      signal: Type.Optional(Count),
      return: Type.Optional(Count),
      fact: Type.Optional(Count),
    }),
  }),
  // Version 1 counted only returns.
  upgrades: [({ bytes }) => ({ bytes: { ...noBytes, return: bytes }, searched: {} })],
});

const minionsRoot = ['log', 'minion'];

export type BytesByClass = Readonly<Record<LogClass, number>>;

const noBytes: BytesByClass = { alarm: 0, signal: 0, return: 0, fact: 0 };

/** Part of the log that each minion may use in any case. */
const smallestPart = 1 / 4;

/** Part that a minion may use in any case, as a multiple of an equal part for each minion. */
const timesEqual = 1.5;

/** Part of the log that is reserved for entries that no minion has caused. */
const ownPart = 1 / 8;

/** Part of the log that is reserved for each minion, as a multiple of an equal part. */
const reservedPart = 1 / 2;

/** Changes of the bytes of minions, by minion and class. */
export class ShareChanges {
  readonly #bytes = new Map<string, BytesByClass>();
  #own = 0;

  /** Change of the bytes of entries that no minion has caused. */
  get own(): number {
    return this.#own;
  }

  /**
   * Adds to the bytes of a minion in a class, or to the bytes of the site itself if `minion` is
   * `undefined`.
   * @param bytes - negative if entries were removed
   */
  add(minion: string | undefined, name: LogClass, bytes: number): void {
    if (minion === undefined) {
      this.#own += bytes;
      return;
    }
    const before = this.of(minion);
    this.#bytes.set(minion, { ...before, [name]: before[name] + bytes });
  }

  of(minion: string): BytesByClass {
    return this.#bytes.get(minion) ?? noBytes;
  }

  /** Returns the change of the bytes of a minion in all classes. */
  totalOf(minion: string): number {
    return totalOf(this.of(minion));
  }

  [Symbol.iterator](): Iterator<readonly [minion: string, bytes: BytesByClass]> {
    return this.#bytes[Symbol.iterator]();
  }
}

/** Entries of one minion in the log. */
export interface MinionShare {
  readonly minion: string;
  /** Size of the entries by class, in bytes. */
  readonly bytes: BytesByClass;
  /** Size of the entries of all classes, in bytes. */
  readonly total: number;
  /**
   * Sequence numbers, by class. No entry of the minion has this number or a lower one. A search for
   * the oldest entries of the minion begins after it, so that it reads each row of the log once.
   */
  readonly searched: Partial<Record<LogClass, number>>;
}

/** Entries that the log should drop because their minion uses more than its part. */
export interface ExcessShare {
  readonly share: MinionShare;
  /** Class of the entries to drop: the last one of which the minion has entries. */
  readonly name: LogClass;
  /** Number of bytes above the part of the minion. */
  readonly excess: number;
}

/** Entries of minions and of the site that exceed the reserves of their owners. */
export interface Surplus {
  /**
   * Minion with the most entries among those that exceed their reserve and have entries in the
   * class `name`. `undefined`: the entries of the site itself exceed theirs, and are more.
   */
  readonly share: MinionShare | undefined;
  /** Class of the entries to drop: the last one that has such entries. */
  readonly name: LogClass;
}

export class LogShares {
  readonly #maxBytes: number;
  /** Bytes of the entries of all minions, by class. */
  #ofMinions: BytesByClass = noBytes;
  readonly #shares = new Map<string, MinionShare>();
  /** Minions that use more than {@link smallestPart}, so there are few of them. */
  readonly #large = new Map<string, MinionShare>();
  readonly #held: Budget;
  readonly #returns: Budget;

  private constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
    this.#held = new Budget(edgeLimits.loggedShare, { perOwner: maxBytes * smallestPart });
    const limit = edgeLimits.loggedBytes;
    this.#returns = new Budget(limit, { ...limit, total: maxBytes });
  }

  /**
   * Reads the stored sizes.
   * @param maxBytes - maximum size of the log, in bytes
   */
  static async read({ list }: Pick<StateArea, 'list'>, maxBytes: number): Promise<LogShares> {
    const shares = new LogShares(maxBytes);
    for await (const entry of list(minionsRoot)) {
      const { bytes, searched } = minionRow.decode(entry);
      shares.#set(entry.key.at(-1) ?? '', bytes, searched);
    }
    return shares;
  }

  /**
   * Whether the log has enough space for a return of this size from a minion. This is so in any case
   * if the minion then uses no more than its reserve.
   * @param changes - changes that are not counted yet
   */
  hasPlace(minion: string, bytes: number, changes: ShareChanges): boolean {
    const share = this.#shares.get(minion);
    const minions = this.#shares.size + (share === undefined ? 1 : 0);
    const total = (share?.total ?? 0) + changes.totalOf(minion) + bytes;
    if (total <= this.#reserveOf(minions)) return true;
    return this.#returns.hasPlace(minion, changes.of(minion).return + bytes);
  }

  /**
   * Whether a minion, or the site itself, uses more than its reserve.
   * @param minion - `undefined`: the site itself
   * @param own - bytes of the entries of the site itself
   * @param changes - changes that are not counted yet
   */
  exceedsReserve(minion: string | undefined, own: number, changes: ShareChanges): boolean {
    if (minion === undefined) return own + changes.own > this.#maxBytes * ownPart;
    const total = (this.#shares.get(minion)?.total ?? 0) + changes.totalOf(minion);
    return total > this.#reserveOf(this.#shares.size);
  }

  /** Returns the bytes of the entries that no minion has caused, by class. */
  ownOf(all: BytesByClass): BytesByClass {
    return sumOf(all, this.#ofMinions, -1);
  }

  /**
   * Returns the entries that a full log drops if no minion uses more than its part: those of the
   * last class, as far as they exceed the reserves of their owners.
   * @param all - bytes of all entries, by class
   */
  surplus(all: BytesByClass): Surplus | undefined {
    const own = this.ownOf(all);
    const ownTotal = totalOf(own);
    const reserve = this.#reserveOf(this.#shares.size);
    let found: Surplus | undefined;
    let most = 0;
    const consider = (total: number, bytes: BytesByClass, share: MinionShare | undefined): void => {
      const name = logClasses.findLast((it) => bytes[it] > 0);
      if (name === undefined) return;
      const order = logClasses.indexOf(name) - (found ? logClasses.indexOf(found.name) : -1);
      if (order < 0 || (order === 0 && total <= most)) return;
      found = { share, name };
      most = total;
    };
    if (ownTotal > this.#maxBytes * ownPart) consider(ownTotal, own, undefined);
    for (const share of this.#shares.values()) {
      if (share.total > reserve) consider(share.total, share.bytes, share);
    }
    return found;
  }

  /**
   * Notes that a search has dropped all entries in a range whose minions exceed their reserves. The
   * next searches for entries of these minions begin after the range.
   * @param after - sequence number after which the search began. `undefined`: with the oldest entry
   * @param to - last sequence number of the range
   */
  noteSearched(name: LogClass, after: number | undefined, to: number): void {
    const reserve = this.#reserveOf(this.#shares.size);
    for (const { total, searched } of this.#shares.values()) {
      if (total > reserve && (searched[name] ?? 0) >= (after ?? 0)) {
        searched[name] = Math.max(searched[name] ?? 0, to);
      }
    }
  }

  /** Returns the reserve of each minion if the log has entries of so many minions, in bytes. */
  #reserveOf(minions: number): number {
    return (this.#maxBytes * (1 - ownPart) * reservedPart) / Math.max(1, minions);
  }

  /** Returns operations that store the changed sizes. */
  operations(changes: ShareChanges): readonly StateOperation[] {
    return [...changes].map(([minion, change]) => {
      const key = [...minionsRoot, minion];
      const bytes = this.#changed(minion, change);
      const searched = this.#shares.get(minion)?.searched ?? {};
      return totalOf(bytes) > 0
        ? { op: 'put', key, value: minionRow.encode({ bytes, searched }) }
        : { op: 'delete', key };
    });
  }

  /** Counts changes, after their operations were executed. */
  count(changes: ShareChanges): void {
    for (const [minion, change] of changes) this.#set(minion, this.#changed(minion, change));
  }

  /**
   * Returns the minion that uses most of the log, if it uses more than its part: a quarter of the
   * log, or 1.5 times an equal part for each minion with entries if that is more.
   */
  largest(): ExcessShare | undefined {
    const equal = this.#maxBytes / Math.max(1, this.#shares.size);
    const part = Math.max(this.#maxBytes * smallestPart, equal * timesEqual);
    let share: MinionShare | undefined;
    for (const each of this.#large.values()) {
      if (each.total > (share?.total ?? part)) share = each;
    }
    const name = logClasses.findLast((it) => share !== undefined && share.bytes[it] > 0);
    if (share === undefined || name === undefined) return undefined;
    return { share, name, excess: share.total - part };
  }

  #changed(minion: string, change: BytesByClass): BytesByClass {
    const bytes = this.#shares.get(minion)?.bytes ?? noBytes;
    return {
      alarm: Math.max(0, bytes.alarm + change.alarm),
      signal: Math.max(0, bytes.signal + change.signal),
      return: Math.max(0, bytes.return + change.return),
      fact: Math.max(0, bytes.fact + change.fact),
    };
  }

  #set(minion: string, bytes: BytesByClass, stored: MinionShare['searched'] = {}): void {
    const before = this.#shares.get(minion);
    this.#held.release(minion, before?.total);
    this.#returns.release(minion, before?.bytes.return);
    this.#large.delete(minion);
    const change = sumOf(bytes, before?.bytes ?? noBytes, -1);
    this.#ofMinions = sumOf(this.#ofMinions, change, 1);
    const total = totalOf(bytes);
    if (total === 0) {
      this.#shares.delete(minion);
      return;
    }
    this.#held.take(minion, total);
    if (bytes.return > 0) this.#returns.take(minion, bytes.return);
    const share = { minion, bytes, total, searched: before?.searched ?? stored };
    this.#shares.set(minion, share);
    if (!this.#held.hasPlace(minion, 0)) this.#large.set(minion, share);
  }
}

/** Adds `factor` times the second bytes to the first ones, in each class. */
function sumOf(first: BytesByClass, second: BytesByClass, factor: number): BytesByClass {
  return {
    alarm: first.alarm + factor * second.alarm,
    signal: first.signal + factor * second.signal,
    return: first.return + factor * second.return,
    fact: first.fact + factor * second.fact,
  };
}

export function totalOf(bytes: BytesByClass): number {
  return logClasses.reduce((sum, name) => sum + bytes[name], 0);
}
