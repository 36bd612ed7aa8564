import { hash } from 'node:crypto';
import type { Logger } from 'pino';
import Type from 'typebox';
import { Budget, codeOf, type Limit, LimitExceeded, RepeatedWarnings } from '#runtime';
import { defineRow, type Entry, type Key, type Operation, type Store } from '#store';
import { minionOwner } from '../api/index.ts';
import type { Cluster } from '../context/index.ts';
import { bytesOnUnknownDisk, jobLimits } from './limits.ts';

/**
 * Store key below which the rows `return-bytes/<member>/<owner>/<end>` are, and the rows
 * `return-bytes/<member>/<owner>/<end>/<minion>` for the large returns of one minion.
 */
const prefix: Key = ['return-bytes'];

/** Name of the owner of the returns of jobs that the operator or a service has started. */
const operatorOwner = 'operator';
/** Name of the member in the rows of a master that does not belong to a cluster. */
const onlyMember = 'master';

/** Size of the largest row that is stored even if its owner has no space left, in bytes. */
const smallRow = 512;
/** Disk space of the largest return that does not count for the minion that sent it, in bytes. */
const largeReturn = 65_536;

/** Character between an owner and a minion in the name of a part. Owners do not contain it. */
const partSeparator = '\n';

/** Estimated disk space of a row in addition to its value, in bytes. */
const rowOverhead = 512;
/** Size of a page of the store, in bytes. A large value uses whole pages. */
const pageBytes = 4096;
/** Size from which a value uses whole pages, in bytes. */
const largeValue = 2000;

/** Number of periods in which the returns of the storage time are counted separately. */
const periods = 8;
/** Maximum number of counts that one return releases after they have expired. */
const releasedAtOnce = 1000;
/** Minimum interval at which the disk space is measured, in milliseconds. */
const measureEveryMs = 300_000;

/** Codec of the rows below {@link prefix}. */
const bytesRow = defineRow({
  name: 'bytes of returns',
  schema: Type.Object({
    /**
     * Upper bound of the bytes of the returns that the member has stored for the owner or for the
     * minion's part of it, and that expire in the period that ends at `end`.
     */
    bytes: Type.Number(),
  }),
});

type Put = Extract<Operation, { op: 'put' }>;

/** Return to store. */
interface CountedReturn {
  /** User who started the job. `undefined` for the operator and services. */
  readonly owner: string | undefined;
  /** Minion that sent the return to a job of the owner. */
  readonly minion?: string | undefined;
  readonly rows: readonly Put[];
  /** Returns the rows to store if the owner has no space left for `rows`. */
  readonly reduced: () => readonly Put[];
  /** Time for which the return is stored, in milliseconds. */
  readonly keepMs: number;
}

export interface ReturnBytesOptions {
  readonly store: Store;
  readonly now: () => number;
  /**
   * Returns the maximum number of bytes of all returns. `undefined`: unknown. Then the previous
   * maximum stays, at first `bytesOnUnknownDisk`.
   */
  readonly maxBytes: () => Promise<number | undefined>;
  /** Cluster of this master. `undefined` if it belongs to no cluster. */
  readonly cluster?: Pick<Cluster, 'follow' | 'member'> | undefined;
  readonly log: Pick<Logger, 'warn'>;
}

/**
 * Limits the disk space of the stored returns of each owner, and of each minion within the share of
 * an owner. Counts the bytes of each holder for each period in which its returns expire. A holder is
 * an owner, or a part of an owner (see {@link partOf}). The store contains these counts, so that they
 * survive a restart, and so that each member of a cluster knows the counts of all members.
 */
export class ReturnBytes {
  readonly #options: ReturnBytesOptions;
  readonly #member: string;
  readonly #budget = new Budget(jobLimits.storedReturnBytes);
  /** Bytes of the large returns of each minion. `#budget` has them too. */
  readonly #parts = new Budget(jobLimits.storedReturnBytesOfMinion);
  /** Bytes that all minions together hold in the budget. */
  #ofMinions = 0;
  readonly #warnings: RepeatedWarnings;
  /** Counted bytes by `<member> <holder>`, for each end of a period. */
  readonly #counts = new Map<number, Map<string, number>>();
  /** Bytes in the stored rows of this member for the current period, by holder. */
  readonly #written = new Map<string, number>();
  #currentEnd = 0;
  #measuredAt = 0;
  #notStored = 0;

  private constructor(options: ReturnBytesOptions) {
    this.#options = options;
    this.#member = options.cluster?.member ?? onlyMember;
    this.#warnings = new RepeatedWarnings(options.log, options.now);
  }

  /**
   * Loads the counts of all members, and measures the disk space. Logs a warning if it is unknown.
   * @throws StoreError
   */
  static async open(options: ReturnBytesOptions): Promise<ReturnBytes> {
    const counts = new ReturnBytes(options);
    options.cluster?.follow(prefix, (change) => {
      if (change.type === 'put' && change.entry.key[1] !== counts.#member)
        counts.#load(change.entry);
    });
    for await (const entry of options.store.list(prefix)) counts.#load(entry);
    counts.#measuredAt = options.now();
    counts.#budget.resize(bytesOnUnknownDisk);
    if (!(await counts.#measure()))
      options.log.warn(
        { bytes: bytesOnUnknownDisk },
        'cannot determine the size of the disk of the store, so stored returns may use 4 GiB; set saltbridge: limits: stored_return_bytes',
      );
    return counts;
  }

  /** Number of counted bytes of all owners. */
  get total(): number {
    this.#releaseExpired();
    return this.#budget.total;
  }

  /** Number of returns whose value was not stored because of the limit. */
  get notStored(): number {
    return this.#notStored;
  }

  /**
   * Stores a return with `write` and counts it. If the owner or the minion has no space left, stores
   * the reduced rows.
   * @param write - writes the rows. It returns `false` if it has written nothing
   * @returns the result of `write`
   */
  async store(
    { owner: user, minion, rows, reduced, keepMs }: CountedReturn,
    write: (rows: readonly Put[]) => Promise<boolean>,
  ): Promise<boolean> {
    this.#releaseExpired();
    this.#measureAgain();
    const owner = nameOf(user);
    const isSmall = rows.every(({ value }) => value.length <= smallRow);
    const needed = spaceOf(rows);
    const isLarge = minion !== undefined && needed > largeReturn;
    const part = isLarge ? partOf(owner, minion) : undefined;
    const exceeded = isSmall ? undefined : this.#exceededBy(owner, part, needed);
    const stored = exceeded === undefined ? rows : reduced();
    const holders = exceeded === undefined && part !== undefined ? [part, owner] : [owner];
    const bytes = spaceOf(stored);
    const end = endOfPeriod(this.#options.now() + keepMs, keepMs);
    for (const holder of holders) {
      this.#add(end, this.#member, holder, bytes);
      this.#writeCount(end, holder);
    }
    let isStored = false;
    try {
      isStored = await write(stored);
    } catch (error) {
      // The cluster may still store the return.
      isStored = codeOf(error) === 'ERR_CLUSTER_OUTCOME';
      throw error;
    } finally {
      if (!isStored) for (const holder of holders) this.#add(end, this.#member, holder, -bytes);
    }
    if (isStored && exceeded !== undefined)
      this.#noteNotStored(exceeded, { owner: user ?? operatorOwner, minion });
    return isStored;
  }

  /**
   * Checks that an owner has space left for returns.
   * @throws LimitExceeded
   */
  requirePlace(user: string): void {
    this.#releaseExpired();
    const owner = nameOf(user);
    if (this.#hasPlace(owner, 1)) return;
    const share = (this.#budget.free + this.#budget.heldBy(owner)) / 2;
    throw new LimitExceeded(jobLimits.storedReturnBytes, Math.max(0, Math.floor(share)));
  }

  /** Returns the limit that more bytes of an owner, or of a minion's part of it, would exceed. */
  #exceededBy(owner: string, part: string | undefined, bytes: number): Limit | undefined {
    if (!this.#hasPlace(owner, bytes)) return jobLimits.storedReturnBytes;
    const left = this.#budget.free - this.#budget.heldBy(owner);
    if (part === undefined || this.#parts.hasPlace(part, bytes, left)) return undefined;
    return jobLimits.storedReturnBytesOfMinion;
  }

  /**
   * Whether an owner may store more bytes. All minions together may use at most as much as is free.
   * Otherwise many minions could leave no space to the operator and to users.
   */
  #hasPlace(owner: string, bytes: number): boolean {
    if (!this.#budget.hasPlace(owner, bytes)) return false;
    return !isMinion(owner) || this.#ofMinions + bytes <= this.#budget.free;
  }

  /** Changes the number of bytes that a holder has in its budget. */
  #hold(holder: string, bytes: number): void {
    const before = this.#budget.total;
    const budget = isPart(holder) ? this.#parts : this.#budget;
    if (bytes > 0) budget.take(holder, bytes);
    else budget.release(holder, -bytes);
    if (isMinion(holder)) this.#ofMinions += this.#budget.total - before;
  }

  /**
   * Writes the count of a holder if the stored count is too low. The store performs writes in the
   * order of their calls. So the count is stored before all returns in it, and a lower count never
   * replaces a higher one.
   */
  #writeCount(end: number, holder: string): void {
    if (end !== this.#currentEnd) {
      this.#written.clear();
      this.#currentEnd = end;
    }
    const used = this.#counts.get(end)?.get(`${this.#member} ${holder}`) ?? 0;
    if (used <= (this.#written.get(holder) ?? 0)) return;
    const bytes = withReserve(used);
    this.#written.set(holder, bytes);
    const [owner = '', ...minion] = holder.split(partSeparator);
    const key = [...prefix, this.#member, owner, String(end), ...minion];
    this.#options.store
      .write([{ op: 'put', key, value: bytesRow.encode({ bytes }), expiresAt: end }])
      .catch(() => {
        // The next return writes the count again. The write of the return reports the error.
        this.#written.delete(holder);
      });
  }

  /** Updates a count from a stored row. The counts of a period only grow. */
  #load(entry: Pick<Entry, 'key' | 'value'>): void {
    const [, member = '', owner = '', end, minion] = entry.key;
    const holder = minion === undefined ? owner : partOf(owner, minion);
    const { bytes } = bytesRow.decode(entry);
    const known = this.#counts.get(Number(end))?.get(`${member} ${holder}`) ?? 0;
    if (bytes > known) this.#add(Number(end), member, holder, bytes - known);
  }

  /** Adds bytes to a count. A negative number releases them, unless the count has expired. */
  #add(end: number, member: string, holder: string, bytes: number): void {
    const name = `${member} ${holder}`;
    const counts = this.#counts.get(end);
    const held = counts?.get(name);
    if (bytes <= 0 && held === undefined) return;
    this.#hold(holder, bytes);
    if (counts === undefined) this.#counts.set(end, new Map([[name, bytes]]));
    else counts.set(name, (held ?? 0) + bytes);
  }

  /** Releases some of the counts whose period has ended. */
  #releaseExpired(): void {
    const now = this.#options.now();
    let left = releasedAtOnce;
    for (const [end, counts] of this.#counts) {
      if (end > now) continue;
      for (const [name, bytes] of counts) {
        if (left <= 0) return;
        left -= 1;
        counts.delete(name);
        this.#hold(name.slice(name.indexOf(' ') + 1), -bytes);
      }
      this.#counts.delete(end);
    }
  }

  #measureAgain(): void {
    const now = this.#options.now();
    if (now - this.#measuredAt < measureEveryMs) return;
    this.#measuredAt = now;
    void this.#measure();
  }

  /** Updates the maximum of the budget. Returns `false` if it is unknown. */
  async #measure(): Promise<boolean> {
    const bytes = await this.#options.maxBytes();
    if (bytes !== undefined) this.#budget.resize(bytes);
    return bytes !== undefined;
  }

  #noteNotStored(
    { name }: Limit,
    from: { readonly owner: string; readonly minion: string | undefined },
  ): void {
    this.#notStored += 1;
    const holder =
      name === jobLimits.storedReturnBytes.name
        ? 'this owner use its whole share'
        : 'this minion to jobs of this owner use its whole part of the share of the owner';
    this.#warnings.warn(
      name,
      { ...from, limit: name },
      `did not store the value of a return, because the stored returns of ${holder} of saltbridge: limits: stored_return_bytes; enlarge the disk of the store or stored_return_bytes, or reduce keep_jobs_seconds`,
    );
  }
}

/**
 * Returns the end of the period in which a return expires. All returns of the period have expired at
 * its end.
 */
function endOfPeriod(expiresAt: number, keepMs: number): number {
  const length = Math.max(1, Math.ceil(keepMs / periods));
  return Math.ceil(expiresAt / length) * length;
}

/**
 * Returns the count to write for a number of used bytes. It is higher, so that few returns have to
 * write it again.
 */
function withReserve(used: number): number {
  return used + Math.min(1_048_576, Math.max(Math.ceil(used / 8), Math.min(used, 4096)));
}

/** Returns the estimated disk space of rows, in bytes. */
function spaceOf(rows: readonly Put[]): number {
  return rows.reduce((sum, { value: { length } }) => {
    const pages = Math.ceil(length / pageBytes) * pageBytes;
    return sum + rowOverhead + (length < largeValue ? length : pages);
  }, 0);
}

/** Returns the name of an owner in the counts. Any user name must result in a valid store key. */
function nameOf(owner = operatorOwner): string {
  if (/^[\x20-\x7e]{1,128}$/.test(owner)) return owner;
  const digest = hash('sha256', owner);
  return isMinion(owner) ? minionOwner(digest) : digest;
}

/** Returns the name of the part of an owner that the large returns of one minion use. */
function partOf(owner: string, minion: string): string {
  return `${owner}${partSeparator}${minion}`;
}

function isPart(holder: string): boolean {
  return holder.includes(partSeparator);
}

function isMinion(owner: string): boolean {
  return owner.startsWith(minionOwner());
}
