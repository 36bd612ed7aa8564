/** Values that operators keep in the master by bank and key: `cache.store` and its like [salt/cache/localfs.py]. */

import { packLocal, unpackLocal, type WireValue } from '../../minion-protocol/index.ts';
import { KeyedMutex } from '../../runtime/index.ts';
import type { Store } from '../../store/index.ts';
import { MasterError } from '../api/index.ts';

const root = 'cache-banks';

/** Values of all banks together. */
const maxValues = 10_000;
/** Bytes of a value. */
const maxValueBytes = 1_048_576;

/** Banks of the store; the bank `minions` is not among them. */
export class CacheBanks {
  readonly #store: Store;
  readonly #mutex = new KeyedMutex();

  constructor(store: Store) {
    this.#store = store;
  }

  /** @throws MasterError ERR_ARGS for a name that is none, and when there is no room */
  put(bank: string, key: string, data: WireValue): Promise<void> {
    return this.#mutex.run(root, async () => {
      const path = [root, nameOf('bank', bank), nameOf('key', key)];
      const value = packLocal(data);
      if (value.length > maxValueBytes) throw refused(`data has more than ${maxValueBytes} bytes`);
      const isNew = (await this.#store.get(path)) === undefined;
      if (isNew && (await this.#count()) >= maxValues) {
        throw refused(`the banks hold ${maxValues} values already; see cache.flush`);
      }
      await this.#store.write([{ op: 'put', key: path, value }]);
    });
  }

  /** `undefined`: there is none. @throws MasterError ERR_ARGS */
  async get(bank: string, key: string): Promise<WireValue | undefined> {
    const entry = await this.#store.get([root, nameOf('bank', bank), nameOf('key', key)]);
    return entry && unpackLocal(entry.value);
  }

  /** Keys of a bank. @throws MasterError ERR_ARGS */
  async keys(bank: string): Promise<string[]> {
    const keys: string[] = [];
    for await (const { key } of this.#store.list([root, nameOf('bank', bank)])) {
      keys.push(key[2] ?? '');
    }
    return keys;
  }

  /** Removes a value, or a bank and those below it. @throws MasterError ERR_ARGS */
  async remove(bank: string, key: string | undefined): Promise<void> {
    nameOf('bank', bank);
    if (key !== undefined) {
      await this.#store.write([{ op: 'delete', key: [root, bank, nameOf('key', key)] }]);
      return;
    }
    const banks = new Set<string>();
    for await (const { key: path } of this.#store.list([root])) banks.add(path[1] ?? '');
    const below = [...banks].filter((name) => name === bank || name.startsWith(`${bank}/`));
    if (below.length === 0) return;
    await this.#store.write(
      below.map((name) => ({ op: 'delete-prefix' as const, prefix: [root, name] })),
    );
  }

  async #count(): Promise<number> {
    let count = 0;
    for await (const _ of this.#store.list([root])) count += 1;
    return count;
  }
}

/** @throws MasterError ERR_ARGS */
function nameOf(what: string, name: string): string {
  const bytes = Buffer.from(name);
  const isText = bytes.toString() === name;
  if (isText && bytes.length > 0 && bytes.length <= 256) return name;
  throw refused(`${what} is not a text of 1 to 256 bytes`);
}

function refused(reason: string): MasterError {
  return new MasterError('ERR_ARGS', reason);
}
