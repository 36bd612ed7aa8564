/**
 * Banks of values that operators store in the master with `cache.store` and related functions
 * [salt/cache/localfs.py].
 */

import { packLocal, unpackLocal, type WireValue } from '#minion-protocol';
import type { Store } from '#store';
import { refused } from '../functions/define-function.ts';
import { IndexedEntries, listInTurns } from './indexed-entries.ts';

const root = 'cache-banks';

/** Maximum number of values in all banks. */
const maxValues = 10_000;
/** Maximum size of a value, in bytes. */
const maxValueBytes = 1_048_576;

/** Keys of each bank. They are in memory, so that listing a bank does not read its values. */
class BankNames {
  readonly #banks = new Map<string, Set<string>>();
  #count = 0;

  static async read(store: Store): Promise<BankNames> {
    const names = new BankNames();
    // Each page has only one value, because values may be large.
    for await (const { key } of listInTurns(store, [root], 1)) {
      const [, bank = '', name = ''] = key;
      names.add(bank, name);
    }
    return names;
  }

  /** Number of values in all banks. */
  get count(): number {
    return this.#count;
  }

  banks(): string[] {
    return [...this.#banks.keys()];
  }

  keys(bank: string): string[] {
    return [...(this.#banks.get(bank) ?? [])].sort();
  }

  has(bank: string, key: string): boolean {
    return this.#banks.get(bank)?.has(key) ?? false;
  }

  add(bank: string, key: string): void {
    if (this.has(bank, key)) return;
    this.#banks.set(bank, (this.#banks.get(bank) ?? new Set()).add(key));
    this.#count += 1;
  }

  remove(bank: string, key: string): void {
    const keys = this.#banks.get(bank);
    if (keys?.delete(key)) this.#count -= 1;
    if (keys?.size === 0) this.#banks.delete(bank);
  }
}

/** All banks in the store, except the bank `minions`. */
export class CacheBanks {
  readonly #store: Store;
  readonly #entries: IndexedEntries<BankNames>;

  constructor(store: Store) {
    this.#store = store;
    this.#entries = new IndexedEntries(store, BankNames.read);
  }

  /**
   * Stores a value.
   * @throws MasterError ERR_ARGS if a name is invalid or the limits are reached
   */
  put(bank: string, key: string, data: WireValue): Promise<void> {
    return this.#entries.run(async (names) => {
      const path = [root, nameOf('bank', bank), nameOf('key', key)];
      const value = packLocal(data);
      if (value.length > maxValueBytes) throw refused(`data exceeds ${maxValueBytes} bytes`);
      if (!names.has(bank, key) && names.count >= maxValues) {
        throw refused(`the banks are full (${maxValues} values); remove some with cache.flush`);
      }
      await this.#entries.write([{ op: 'put', key: path, value }]);
      names.add(bank, key);
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
   * @throws MasterError ERR_ARGS
   */
  keys(bank: string): Promise<string[]> {
    return this.#entries.run(async (names) => names.keys(nameOf('bank', bank)));
  }

  /**
   * Removes a value, or a bank and all banks below it.
   * @throws MasterError ERR_ARGS
   */
  remove(bank: string, key: string | undefined): Promise<void> {
    return this.#entries.run(async (names) => {
      nameOf('bank', bank);
      if (key !== undefined) {
        await this.#entries.write([{ op: 'delete', key: [root, bank, nameOf('key', key)] }]);
        names.remove(bank, key);
        return;
      }
      const below = names.banks().filter((name) => name === bank || name.startsWith(`${bank}/`));
      await this.#entries.write(
        below.map((name) => ({ op: 'delete-prefix', prefix: [root, name] })),
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
