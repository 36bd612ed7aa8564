/** A part of the store that belongs to one extension; rows of another are out of its reach. */
import type { Entry, Key, ListOptions, Operation, Store } from '../../store/index.ts';
import { createSeal, type Seal } from '../secrets/seal.ts';

/** A row. */
export type StateEntry = Entry;

/** One step of {@link StateArea.write}: as the store's, without streams. */
export type StateOperation = Exclude<Operation, { readonly op: 'append' }>;

/** Rows of one extension, by keys that begin anew for each; and a seal of its own. */
export interface StateArea {
  /** @throws StoreError */
  get(key: Key): Promise<StateEntry | undefined>;
  /** Rows whose key begins with `prefix`, in key order. @throws StoreError */
  list(prefix: Key, options?: ListOptions): AsyncIterable<StateEntry>;
  /**
   * All of it or nothing; on disk when it resolves. With `ifRevision: 0` a row is written only
   * where there is none.
   * @returns the revision that the rows have now
   * @throws StoreError ERR_REVISION when an `ifRevision` does not hold; nothing was written
   */
  write(operations: readonly StateOperation[]): Promise<number>;
  /** For what no copy of the store may give away; opens in this extension of this master alone. */
  seal(plain: Uint8Array): Uint8Array;
  /** @throws MasterError ERR_SEAL when it was sealed elsewhere, or altered */
  unseal(sealed: Uint8Array): Uint8Array;
}

/** The part that belongs to the extension of this name. */
export function openStateArea(store: Store, seal: Seal, name: string): StateArea {
  const root = ['state', name];
  const inside = (key: Key): Key => [...root, ...key];
  const outside = (entry: Entry): StateEntry => ({ ...entry, key: entry.key.slice(root.length) });
  const own = createSeal(seal.derive(`state ${name}`));
  return {
    get: async (key) => {
      const entry = await store.get(inside(key));
      return entry && outside(entry);
    },
    list: (prefix, options) => listed(store.list(inside(prefix), within(options, inside)), outside),
    write: (operations) => store.write(operations.map((one) => placed(one, inside))),
    seal: (plain) => own.seal(plain),
    unseal: (sealed) => own.open(sealed),
  };
}

function within(options: ListOptions | undefined, inside: (key: Key) => Key): ListOptions {
  const { after } = options ?? {};
  return { ...options, ...(after === undefined ? {} : { after: inside(after) }) };
}

function placed(operation: StateOperation, inside: (key: Key) => Key): Operation {
  return operation.op === 'delete-prefix'
    ? { ...operation, prefix: inside(operation.prefix) }
    : { ...operation, key: inside(operation.key) };
}

async function* listed(
  entries: AsyncIterable<Entry>,
  outside: (entry: Entry) => StateEntry,
): AsyncGenerator<StateEntry, void, void> {
  for await (const entry of entries) yield outside(entry);
}
