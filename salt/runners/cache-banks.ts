/**
 * Banks of values that operators store in the master with `cache.store` and related functions
 * [salt/cache/localfs.py].
 */

import { packLocalWithin, unpackLocal, type WireValue } from '#minion-protocol';
import { type LimitValues, releaseAll, tryTakeAll } from '#runtime';
import type { Operation, Store } from '#store';
import { refused } from '../functions/define-function.ts';
import { saltLimits } from '../limits.ts';
import { IndexedEntries, listInTurns } from './indexed-entries.ts';
import { operatorOwner, StoredAmounts, valueWorkOf } from './stored-amounts.ts';

const root = 'cache-banks';

/**
 * Key prefix of the rows that contain the owner of a value. A value that a user or minion has
 * stored has such a row. A value of the operator has none.
 */
const ownersRoot = 'cache-bank-owners';
const ownersPerTurn = 256;

/** Maximum size of a value, in bytes. */
const maxValueBytes = 1_048_576;

/** Size of a stored value in bytes, and the owner towards whose limits this size counts. */
interface StoredValue {
  readonly bytes: number;
  readonly owner: string;
}

/** Keys of each bank. They are in memory, so that listing a bank does not read its values. */
class BankNames {
  readonly #banks = new Map<string, Map<string, StoredValue>>();
  readonly #values: StoredAmounts;
  readonly #bytes = new StoredAmounts(saltLimits.bankBytes);

  constructor(values: LimitValues) {
    this.#values = new StoredAmounts(saltLimits.bankValues, values);
  }

  static async read(store: Store, values: LimitValues): Promise<BankNames> {
    const names = new BankNames(values);
    const budget = valueWorkOf(operatorOwner);
    const owners = new Map<string, string>();
    for await (const { key, value } of listInTurns(store, [ownersRoot], ownersPerTurn, budget)) {
      owners.set(JSON.stringify(key.slice(1)), Buffer.from(value).toString());
    }
    // Each page has only one value, because values may be large.
    for await (const { key, value } of listInTurns(store, [root], 1, budget)) {
      const [, bank = '', name = ''] = key;
      const owner = owners.get(JSON.stringify([bank, name])) ?? operatorOwner;
      names.add(bank, name, { bytes: value.byteLength, owner });
    }
    return names;
  }

  banks(): string[] {
    return [...this.#banks.keys()];
  }

  keys(bank: string): string[] {
    return [...(this.#banks.get(bank)?.keys() ?? [])].sort();
  }

  find(bank: string, key: string): StoredValue | undefined {
    return this.#banks.get(bank)?.get(key);
  }

  /**
   * Checks that a value may be stored.
   * @throws MasterError ERR_ARGS if a limit is reached
   */
  requireRoom(bank: string, key: string, value: StoredValue): void {
    const before = this.find(bank, key);
    if (before !== undefined) this.#release(before);
    const full = tryTakeAll(this.#partsOf(value));
    if (full === undefined) this.#release(value);
    if (before !== undefined) this.#take(before);
    if (full === undefined) return;
    const maximum = `${full.budget.maximumOf(value.owner)} ${full.unit}`;
    throw refused(`the banks are full (${maximum}); remove some with cache.flush`);
  }

  add(bank: string, key: string, value: StoredValue): void {
    this.remove(bank, key);
    this.#banks.set(bank, (this.#banks.get(bank) ?? new Map()).set(key, value));
    this.#take(value);
  }

  remove(bank: string, key: string): void {
    const values = this.#banks.get(bank);
    const value = values?.get(key);
    if (values === undefined || value === undefined) return;
    values.delete(key);
    if (values.size === 0) this.#banks.delete(bank);
    this.#release(value);
  }

  #take(value: StoredValue): void {
    for (const { budget, owner, amount } of this.#partsOf(value)) budget.take(owner, amount);
  }

  #release(value: StoredValue): void {
    releaseAll(this.#partsOf(value));
  }

  #partsOf({ owner, bytes }: StoredValue) {
    return [
      { budget: this.#values, owner, amount: 1, unit: 'values' },
      { budget: this.#bytes, owner, amount: bytes, unit: 'bytes' },
    ];
  }
}

/** All banks in the store, except the bank `minions`. */
export class CacheBanks {
  readonly #store: Store;
  readonly #entries: IndexedEntries<BankNames>;

  /** @param values - limits on the number of stored values, per owner and in total */
  constructor(store: Store, values: LimitValues = saltLimits.bankValues) {
    this.#store = store;
    this.#entries = new IndexedEntries(store, (it) => BankNames.read(it, values));
  }

  /**
   * Stores a value.
   * @param owner - owner towards whose limits the value counts, see {@link ownerOfValues}
   * @throws MasterError ERR_ARGS if a name is invalid or the limits are reached
   */
  put(bank: string, key: string, data: WireValue, owner: string = operatorOwner): Promise<void> {
    return this.#entries.run(owner, async (names) => {
      const path = [root, nameOf('bank', bank), nameOf('key', key)];
      const value = packLocalWithin(data, maxValueBytes);
      if (value === undefined) throw refused(`\`data\` exceeds ${maxValueBytes} bytes`);
      const stored = { bytes: value.length, owner };
      names.requireRoom(bank, key, stored);
      const ownerKey = [ownersRoot, bank, key];
      const ownerRow: Operation =
        owner === operatorOwner
          ? { op: 'delete', key: ownerKey }
          : { op: 'put', key: ownerKey, value: Buffer.from(owner) };
      await this.#entries.write([{ op: 'put', key: path, value }, ownerRow]);
      names.add(bank, key, stored);
    });
  }

  /**
   * Returns a value, or `undefined` if it does not exist.
   * @throws MasterError ERR_ARGS
   */
  async get(bank: string, key: string): Promise<WireValue | undefined> {
    const entry = await this.#store.get([root, nameOf('bank', bank), nameOf('key', key)]);
    return entry && unpackLocal(entry.value);
  }

  /**
   * Returns the keys of a bank, sorted.
   * @param owner - result of {@link ownerOfValues} for the caller
   * @throws MasterError ERR_ARGS
   */
  keys(bank: string, owner: string = operatorOwner): Promise<string[]> {
    return this.#entries.run(owner, async (names) => names.keys(nameOf('bank', bank)));
  }

  /**
   * Removes a value, or a bank and all banks below it.
   * @param owner - owner towards whose limits the work counts, see {@link ownerOfValues}
   * @throws MasterError ERR_ARGS
   */
  remove(bank: string, key: string | undefined, owner: string = operatorOwner): Promise<void> {
    return this.#entries.run(owner, async (names) => {
      nameOf('bank', bank);
      if (key !== undefined) {
        const path = [bank, nameOf('key', key)];
        await this.#entries.write([
          { op: 'delete', key: [root, ...path] },
          { op: 'delete', key: [ownersRoot, ...path] },
        ]);
        names.remove(bank, key);
        return;
      }
      const below = names.banks().filter((name) => name === bank || name.startsWith(`${bank}/`));
      await this.#entries.write(
        below.flatMap((name) => [
          { op: 'delete-prefix', prefix: [root, name] } as const,
          { op: 'delete-prefix', prefix: [ownersRoot, name] } as const,
        ]),
      );
      for (const name of below) for (const each of names.keys(name)) names.remove(name, each);
    });
  }
}

/**
 * Checks the name of a bank or key, and returns it.
 * @param what - `bank` or `key`, for the error message
 * @throws MasterError ERR_ARGS
 */
function nameOf(what: string, name: string): string {
  const bytes = Buffer.from(name);
  const isText = bytes.toString() === name;
  if (isText && bytes.length > 0 && bytes.length <= 256) return name;
  throw refused(`${what} must be a text of 1 to 256 bytes`);
}
