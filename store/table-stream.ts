import { encodeKey } from './key.ts';
import { packNumber, packRecordKey, unpackNumber, unpackRecord } from './row-format.ts';
import type { Stream, StreamConsumer, StreamRecord } from './store.ts';
import type { Tables } from './tables.ts';

/** How a stream reaches the tables of its store. */
export interface StreamAccess {
  read<T>(work: () => T): T;
  /** Resolves when what `work` wrote is durable. */
  write<T>(work: () => T): Promise<T>;
}

/** Where the number of the last record of a stream is kept. @throws StoreError ERR_KEY */
export function streamHeadKey(stream: string): Buffer {
  return encodeKey(['stream', stream]);
}

/** A {@link Stream} over the tables of a store. */
export class TableStream implements Stream {
  readonly #name: string;
  readonly #key: Buffer;
  readonly #tables: Tables;
  readonly #access: StreamAccess;

  constructor(name: string, tables: Tables, access: StreamAccess) {
    this.#name = name;
    this.#key = encodeKey([name]);
    this.#tables = tables;
    this.#access = access;
  }

  async read(
    options: { readonly after?: number; readonly limit?: number } = {},
  ): Promise<readonly StreamRecord[]> {
    const { after = 0, limit = Number.POSITIVE_INFINITY } = options;
    return this.#access.read(() => this.#records(after, limit));
  }

  consumer(name: string): StreamConsumer {
    const position = encodeKey(['consumer', this.#name, name]);
    return {
      fetch: async (limit) =>
        this.#access.read(() => {
          const after = unpackNumber(this.#tables.meta.get(position));
          return this.#records(after, limit);
        }),
      acknowledge: (sequence) => this.#acknowledge(position, sequence),
    };
  }

  async trim(sequence: number): Promise<void> {
    await this.#access.write(() => {
      const from = packRecordKey(this.#key, 0);
      const to = packRecordKey(this.#key, sequence + 1);
      for (const { key } of this.#tables.records.range({ from, to })) {
        this.#tables.records.remove(key);
      }
    });
  }

  async #acknowledge(position: Buffer, sequence: number): Promise<void> {
    await this.#access.write(() => {
      const head = unpackNumber(this.#tables.meta.get(streamHeadKey(this.#name)));
      const done = unpackNumber(this.#tables.meta.get(position));
      const next = Math.min(sequence, head);
      if (next > done) this.#tables.meta.put(position, packNumber(next));
    });
  }

  #records(after: number, limit: number): StreamRecord[] {
    const from = packRecordKey(this.#key, after + 1);
    const to = packRecordKey(this.#key, Number.POSITIVE_INFINITY);
    return this.#tables.records.range({ from, to, limit }).map(unpackRecord);
  }
}
