/**
 * Storage of the values of data spaces: the interface `Coordinator`, and its implementation in the
 * master's store.
 */

import Type from 'typebox';
import { BridgeError } from '#heat-bridge';
import type { SharedArea } from '#master';
import { Bytes, defineRow, tryToWrite } from '#store';

/** Value of a data space in the form in which it is stored, with its version. */
export interface CoordinatedValue {
  readonly value: Uint8Array;
  /** Version of the value. The first value of a key has version 1; each write increments it. */
  readonly version: number;
}

/**
 * Stores values by data space and key. If an external server is unavailable, each call fails with
 * ERR_DATA_UNAVAILABLE; a `put` may nevertheless have been performed. If another program wrote the
 * value, `get` fails with ERR_DATA_ALTERED.
 */
export interface Coordinator {
  get(space: string, key: string): Promise<CoordinatedValue | undefined>;
  /**
   * Writes a new version of a value, if the stored version immediately precedes it. Resolves when
   * the write is durable.
   * @returns false if another version is stored; nothing is written in this case
   */
  put(space: string, key: string, written: CoordinatedValue): Promise<boolean>;
  /**
   * Calls the listener after each change of a key, and after its space was deleted. Also calls it
   * after an outage, during which a change may have been missed. Returns a function that ends the
   * watch.
   */
  watch(space: string, key: string, listener: () => void): () => void;
  /** Returns the size of each value of a space, in bytes. */
  sizes(space: string): Promise<ReadonlyMap<string, number>>;
  /** Deletes all values of a space. Resolves when the deletion is durable. */
  remove(space: string): Promise<void>;
  /** Whether the external server is connected. Absent if values are in the master's store. */
  isConnected?(): boolean;
  close(): Promise<void>;
}

/**
 * Returns ERR_DATA_UNAVAILABLE for a failed call of the external server. Its message does not
 * contain the cause, because a guest may receive it. Only the operator's log shows the cause.
 */
export function unavailableError(cause: unknown): BridgeError {
  const text =
    'the server that stores the values of data spaces (etcd or ZooKeeper) is unavailable; retry later';
  return new BridgeError('ERR_DATA_UNAVAILABLE', text, { cause });
}

/** Listeners for changes, by space and key. */
export class ChangeListeners {
  readonly #spaces = new Map<string, Map<string, Set<() => void>>>();

  add(space: string, key: string, listener: () => void): () => void {
    const keys = this.#spaces.get(space) ?? new Map<string, Set<() => void>>();
    this.#spaces.set(space, keys);
    const listeners = keys.get(key) ?? new Set();
    keys.set(key, listeners);
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && keys.get(key) === listeners) keys.delete(key);
      if (keys.size === 0 && this.#spaces.get(space) === keys) this.#spaces.delete(space);
    };
  }

  has(space: string, key: string): boolean {
    return this.#spaces.get(space)?.has(key) ?? false;
  }

  /** Spaces and keys with listeners. */
  get watched(): readonly (readonly [space: string, key: string])[] {
    return [...this.#spaces].flatMap(([space, keys]) =>
      [...keys.keys()].map((key) => [space, key] as const),
    );
  }

  tell(space: string, key: string): void {
    for (const listener of [...(this.#spaces.get(space)?.get(key) ?? [])]) listener();
  }

  tellSpace(space: string): void {
    for (const key of [...(this.#spaces.get(space)?.keys() ?? [])]) this.tell(space, key);
  }

  tellAll(): void {
    for (const space of [...this.#spaces.keys()]) this.tellSpace(space);
  }
}

const prefix = ['guests', 'values'];

/** Format of the rows with the keys `guests/values/<space>/<key>`. */
const valueRow = defineRow({
  name: 'value of a data space',
  schema: Type.Object({ version: Type.Number(), value: Bytes }),
  unversioned: (bytes) => ({
    version: Buffer.from(bytes.subarray(0, headLength)).readUIntBE(0, headLength),
    value: bytes.subarray(headLength),
  }),
});

/**
 * Size of the version number at the beginning of rows in the first storage format, in bytes. Later
 * formats begin with a format number instead.
 */
const headLength = 6;

/**
 * Creates a coordinator in the master's store. It reports changes of this process and of other
 * cluster members immediately.
 */
export async function createStoreCoordinator(
  state: Pick<SharedArea, 'cluster' | 'follow' | 'get' | 'list' | 'write'>,
): Promise<Coordinator> {
  const changes = new ChangeListeners();
  if (state.cluster !== undefined) {
    await state.follow(prefix, (change) => {
      const [space = '', key = ''] = (change.type === 'put' ? change.entry : change).key.slice(-2);
      changes.tell(space, key);
    });
  }
  return {
    get: async (space, key) => {
      const entry = await state.get([...prefix, space, key]);
      return entry && valueRow.decode(entry);
    },
    put: async (space, key, written) => {
      const row = [...prefix, space, key];
      const before = await state.get(row);
      const version = before === undefined ? 0 : valueRow.decode(before).version;
      if (version !== written.version - 1) return false;
      const value = valueRow.encode(written);
      const put = { op: 'put', key: row, value, ifRevision: before?.revision ?? 0 } as const;
      if (!(await tryToWrite(state, [put]))) return false;
      changes.tell(space, key);
      return true;
    },
    watch: (space, key, listener) => changes.add(space, key, listener),
    sizes: async (space) => {
      const sizes = new Map<string, number>();
      for await (const entry of state.list([...prefix, space])) {
        sizes.set(entry.key.at(-1) ?? '', valueRow.decode(entry).value.length);
      }
      return sizes;
    },
    remove: async (space) => {
      await state.write([{ op: 'delete-prefix', prefix: [...prefix, space] }]);
      changes.tellSpace(space);
    },
    // Nothing to close: the master closes its own store.
    close: async () => {},
  };
}
