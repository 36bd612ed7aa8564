import { type Limit, LimitExceeded, type LimitValues } from './limits.ts';
import { LinkedList, type ListNode } from './linked-list.ts';

interface Row<Value> extends ListNode<Row<Value>> {
  readonly key: string;
  readonly owner: Owner<Value>;
  value: Value;
}

interface Owner<Value> extends ListNode<Owner<Value>> {
  readonly name: string;
  readonly rows: LinkedList<Row<Value>>;
  count: number;
}

/** Options of a {@link FairTable}. */
export interface FairTableOptions<Value> {
  /** Called after a row was evicted. */
  readonly onEvict?: (key: string, value: Value) => void;
}

/**
 * A bounded table of rows with owners. If the table is full, a new row evicts the oldest row of the
 * owner with the most rows. It never evicts the only row of another owner. Each operation takes
 * constant time.
 */
export class FairTable<Value> {
  readonly #limit: Limit;
  readonly #perOwner: number;
  readonly #total: number;
  readonly #onEvict: (key: string, value: Value) => void;
  readonly #rows = new Map<string, Row<Value>>();
  readonly #owners = new Map<string, Owner<Value>>();
  /**
   * Owners, grouped by their number of rows. The list at index `n` contains the owners that have
   * `n` rows.
   */
  readonly #byCount: LinkedList<Owner<Value>>[] = [];
  /** Number of rows of the owner with the most rows. */
  #most = 0;

  /**
   * @param values - maximum number of rows, per owner and in total. Default: the maximums of
   * `limit`
   */
  constructor(limit: Limit, options: FairTableOptions<Value> = {}, values: LimitValues = limit) {
    this.#limit = limit;
    this.#perOwner = values.perOwner ?? Infinity;
    this.#total = values.total ?? Infinity;
    this.#onEvict = options.onEvict ?? (() => {});
  }

  /** Number of rows. */
  get size(): number {
    return this.#rows.size;
  }

  /** Returns the number of rows of an owner. */
  countOf(owner: string): number {
    return this.#owners.get(owner)?.count ?? 0;
  }

  /** Returns the key of the oldest row of an owner, or `undefined` if the owner has no rows. */
  oldestOf(owner: string): string | undefined {
    return this.#owners.get(owner)?.rows.first?.key;
  }

  /** Returns the value of a row, and makes the row the newest of its owner. */
  get(key: string): Value | undefined {
    const row = this.#rows.get(key);
    if (row === undefined) return undefined;
    row.owner.rows.remove(row);
    row.owner.rows.append(row);
    return row.value;
  }

  /** Returns the value of a row, or `undefined`. Does not change the order of the rows. */
  peek(key: string): Value | undefined {
    return this.#rows.get(key)?.value;
  }

  /**
   * Adds or replaces a row, which becomes the newest of its owner. May evict another row, but never
   * the only row of another owner.
   * @throws LimitExceeded if the table is full and no row may be evicted
   */
  set(owner: string, key: string, value: Value): void {
    if (!this.trySet(owner, key, value)) throw new LimitExceeded(this.#limit, this.#total);
  }

  /**
   * Adds or replaces a row like {@link set}.
   * @returns `false` if the table is full and no row may be evicted
   */
  trySet(owner: string, key: string, value: Value): boolean {
    const known = this.#rows.get(key);
    if (known !== undefined && known.owner.name === owner) {
      known.value = value;
      this.get(key);
      return true;
    }
    if (known !== undefined) this.#remove(known);
    if (!this.#makePlace(owner)) return false;
    this.#add(owner, key, value);
    return true;
  }

  /**
   * Removes a row.
   * @returns whether the row existed
   */
  delete(key: string): boolean {
    const row = this.#rows.get(key);
    if (row === undefined) return false;
    this.#remove(row);
    return true;
  }

  keys(): MapIterator<string> {
    return this.#rows.keys();
  }

  *entries(): Generator<readonly [key: string, value: Value], void> {
    for (const { key, value } of this.#rows.values()) yield [key, value];
  }

  *values(): Generator<Value, void> {
    for (const { value } of this.#rows.values()) yield value;
  }

  /**
   * Returns the key of the row to evict from a full table before this owner gets a new row. Returns
   * `undefined` if no row may be evicted.
   */
  victimOf(owner: string): string | undefined {
    return this.#victim(this.#owners.get(owner))?.key;
  }

  #victim(own: Owner<Value> | undefined): Row<Value> | undefined {
    const count = own?.count ?? 0;
    if (count > 0 && (count >= this.#perOwner || count >= this.#most)) return own?.rows.first;
    return this.#most <= 1 ? undefined : this.#byCount[this.#most]?.first?.rows.first;
  }

  #makePlace(owner: string): boolean {
    const own = this.#owners.get(owner);
    if ((own?.count ?? 0) < this.#perOwner && this.#rows.size < this.#total) return true;
    const oldest = this.#victim(own);
    if (oldest === undefined) return false;
    this.#remove(oldest);
    this.#onEvict(oldest.key, oldest.value);
    return true;
  }

  #add(name: string, key: string, value: Value): void {
    let owner = this.#owners.get(name);
    if (owner === undefined) {
      owner = { name, rows: new LinkedList(), count: 0, previous: undefined, next: undefined };
      this.#owners.set(name, owner);
    }
    const row = { key, owner, value, previous: undefined, next: undefined };
    this.#rows.set(key, row);
    owner.rows.append(row);
    this.#count(owner, owner.count + 1);
  }

  #remove(row: Row<Value>): void {
    const { owner } = row;
    this.#rows.delete(row.key);
    owner.rows.remove(row);
    this.#count(owner, owner.count - 1);
    if (owner.count === 0) this.#owners.delete(owner.name);
  }

  #count(owner: Owner<Value>, count: number): void {
    if (owner.count > 0) this.#byCount[owner.count]?.remove(owner);
    if (count > 0) {
      const others = this.#byCount[count] ?? new LinkedList();
      this.#byCount[count] = others;
      others.append(owner);
    }
    owner.count = count;
    if (count > this.#most) this.#most = count;
    else if (this.#byCount[this.#most]?.first === undefined && this.#most > 0) this.#most -= 1;
  }
}
