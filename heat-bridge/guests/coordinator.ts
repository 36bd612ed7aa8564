/** Where the values of data spaces are kept: one interface, and its implementation in the store. */

import { EventEmitter } from 'node:events';
import { type StateArea, StoreError } from '../../master/index.ts';

/** A value as it is kept. */
export interface CoordinatedValue {
  readonly value: Uint8Array;
  /** 1 for the first value of a key; each that follows has the next number. */
  readonly version: number;
}

/** Keeps values by space and key. What reads them all is a caller of its own for each space. */
export interface Coordinator {
  get(space: string, key: string): Promise<CoordinatedValue | undefined>;
  /**
   * Writes the value of a version if the version before it is there now. Durable when it resolves.
   * @returns false: another version is there, and nothing was written
   */
  put(space: string, key: string, written: CoordinatedValue): Promise<boolean>;
  /** Calls the listener after each change of a key, and after the end of its space, until stopped. */
  watch(space: string, key: string, listener: () => void): () => void;
  /** Bytes of each value of a space. */
  sizes(space: string): Promise<ReadonlyMap<string, number>>;
  /** Forgets every value of a space; durable when it resolves. */
  remove(space: string): Promise<void>;
}

const prefix = ['guests', 'values'];
/** Bytes before the value: its version. */
const headLength = 6;

/** Keeps values in the store, which one process holds: what it writes is told at once. */
export function createStoreCoordinator(
  state: Pick<StateArea, 'get' | 'list' | 'write'>,
): Coordinator {
  const changes = new EventEmitter().setMaxListeners(0);
  const nameOf = (space: string, key: string): string => JSON.stringify([space, key]);
  return {
    get: async (space, key) => {
      const entry = await state.get([...prefix, space, key]);
      return entry && decode(entry.value);
    },
    put: async (space, key, written) => {
      const row = [...prefix, space, key];
      const before = await state.get(row);
      const version = before === undefined ? 0 : decode(before.value).version;
      if (version !== written.version - 1) return false;
      try {
        const ifRevision = before?.revision ?? 0;
        await state.write([{ op: 'put', key: row, value: encode(written), ifRevision }]);
      } catch (error) {
        if (error instanceof StoreError && error.code === 'ERR_REVISION') return false;
        throw error;
      }
      changes.emit(nameOf(space, key));
      return true;
    },
    watch: (space, key, listener) => {
      changes.on(nameOf(space, key), listener);
      return () => changes.off(nameOf(space, key), listener);
    },
    sizes: async (space) => {
      const sizes = new Map<string, number>();
      for await (const { key, value } of state.list([...prefix, space])) {
        sizes.set(key.at(-1) ?? '', value.length - headLength);
      }
      return sizes;
    },
    remove: async (space) => {
      await state.write([{ op: 'delete-prefix', prefix: [...prefix, space] }]);
      const begin = `[${JSON.stringify(space)},`;
      for (const name of changes.eventNames()) {
        if (String(name).startsWith(begin)) changes.emit(name);
      }
    },
  };
}

function encode({ value, version }: CoordinatedValue): Uint8Array {
  const row = Buffer.alloc(headLength + value.length);
  row.writeUIntBE(version, 0, headLength);
  row.set(value, headLength);
  return row;
}

function decode(row: Uint8Array): CoordinatedValue {
  const bytes = Buffer.from(row.buffer, row.byteOffset, row.length);
  return { version: bytes.readUIntBE(0, headLength), value: bytes.subarray(headLength) };
}
