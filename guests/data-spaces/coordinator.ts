/** Where the values of data spaces are kept: one interface, and its implementation in the store. */

import Type from 'typebox';
import { BridgeError } from '#heat-bridge';
import type { SharedArea } from '#master';
import { Bytes, defineRow, StoreError } from '#store';

/** A value as it is kept. */
export interface CoordinatedValue {
  readonly value: Uint8Array;
  /** 1 for the first value of a key; each that follows has the next number. */
  readonly version: number;
}

/**
 * Keeps values by space and key. What reads them all is a caller of its own for each space. Each call
 * fails with ERR_DATA_UNAVAILABLE where a server that keeps them cannot be asked now; a `put` may
 * have been done then. A `get` fails with ERR_DATA_ALTERED where something else wrote the value.
 */
export interface Coordinator {
  get(space: string, key: string): Promise<CoordinatedValue | undefined>;
  /**
   * Writes the value of a version if the version before it is there now. Durable when it resolves.
   * @returns false: another version is there, and nothing was written
   */
  put(space: string, key: string, written: CoordinatedValue): Promise<boolean>;
  /**
   * Calls the listener until stopped: after each change of a key, after the end of its space, and
   * after a time in which a change may have been missed.
   */
  watch(space: string, key: string, listener: () => void): () => void;
  /** Bytes of each value of a space. */
  sizes(space: string): Promise<ReadonlyMap<string, number>>;
  /** Forgets every value of a space; durable when it resolves. */
  remove(space: string): Promise<void>;
  /** Whether a server that keeps the values is connected; absent: they are in the store. */
  isConnected?(): boolean;
  close(): Promise<void>;
}

/** Why a server cannot be asked is for the operator's log: who asks may be a guest. */
export function unavailableError(cause: unknown): BridgeError {
  const text = 'the server that keeps the values of data spaces cannot be reached now';
  return new BridgeError('ERR_DATA_UNAVAILABLE', text, { cause });
}

/** Who waits for changes of which key. */
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

  /** Spaces and keys that somebody waits for. */
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

/** Rows `guests/values/<space>/<key>`. */
const valueRow = defineRow({
  name: 'value of a data space',
  schema: Type.Object({ version: Type.Number(), value: Bytes }),
  unversioned: (bytes) => ({
    version: Buffer.from(bytes.subarray(0, headLength)).readUIntBE(0, headLength),
    value: bytes.subarray(headLength),
  }),
});

/** Bytes before the value in rows without a version of the form: the version of the value. */
const headLength = 6;

/** Keeps values in the store: what this process writes, or another member of a cluster, is told at once. */
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
      try {
        const ifRevision = before?.revision ?? 0;
        await state.write([{ op: 'put', key: row, value: valueRow.encode(written), ifRevision }]);
      } catch (error) {
        if (error instanceof StoreError && error.code === 'ERR_REVISION') return false;
        throw error;
      }
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
    // The store is the master's.
    close: async () => {},
  };
}
