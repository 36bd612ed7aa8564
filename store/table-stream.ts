import { encodeKey } from './key-bytes.ts';
import { packNumber, packRecordKey, unpackNumber, unpackRecord } from './row-layout.ts';
import type { Stream, StreamConsumer, StreamRecord } from './store.ts';
import type { RowTables, Tables } from './tables.ts';

/**
 * Change of a {@link Stream} that {@link Store.write} cannot make: trimming the stream, or
 * acknowledging its records.
 */
export type StreamStep =
  | { readonly op: 'trim'; readonly stream: string; readonly sequence: number }
  | {
      readonly op: 'acknowledge';
      readonly stream: string;
      readonly consumer: string;
      readonly sequence: number;
    };

/** Functions through which a {@link TableStream} reads and changes the tables of its store. */
interface StreamAccess {
  read<T>(work: () => T): T;
  /** Trims a stream, or acknowledges its records. Resolves when the change is durable. */
  write(step: StreamStep): Promise<void>;
}

/** Trims a stream, or acknowledges its records, inside a transaction. */
export function applyStreamStep(tables: RowTables, step: StreamStep): void {
  if (step.op === 'trim') trimStream(tables, step);
  else acknowledge(tables, step);
}

function trimStream(
  { records }: RowTables,
  { stream, sequence }: StreamStep & { readonly op: 'trim' },
): void {
  const name = encodeKey([stream]);
  const range = { from: packRecordKey(name, 0), to: packRecordKey(name, sequence + 1) };
  for (const { key } of records.range(range)) records.remove(key);
}

function acknowledge(
  { meta }: RowTables,
  { stream, consumer, sequence }: StreamStep & { readonly op: 'acknowledge' },
): void {
  const position = consumerKey(stream, consumer);
  const head = unpackNumber(meta.get(streamHeadKey(stream)));
  const next = Math.min(sequence, head);
  if (next > unpackNumber(meta.get(position))) meta.put(position, packNumber(next));
}

/**
 * Returns the key of the row that contains the last sequence number that a consumer acknowledged.
 * @throws StoreError ERR_KEY
 */
function consumerKey(stream: string, consumer: string): Buffer {
  return encodeKey(['consumer', stream, consumer]);
}

/**
 * Returns the key of the row that contains the sequence number of a stream's last record.
 * @throws StoreError ERR_KEY
 */
export function streamHeadKey(stream: string): Buffer {
  return encodeKey(['stream', stream]);
}

/** A {@link Stream} on top of the tables of a store. */
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
    const position = consumerKey(this.#name, name);
    return {
      fetch: async (limit) =>
        this.#access.read(() => {
          const after = unpackNumber(this.#tables.meta.get(position));
          return this.#records(after, limit);
        }),
      acknowledge: (sequence) =>
        this.#access.write({ op: 'acknowledge', stream: this.#name, consumer: name, sequence }),
    };
  }

  async trim(sequence: number): Promise<void> {
    await this.#access.write({ op: 'trim', stream: this.#name, sequence });
  }

  #records(after: number, limit: number): StreamRecord[] {
    const from = packRecordKey(this.#key, after + 1);
    const to = packRecordKey(this.#key, Number.POSITIVE_INFINITY);
    return this.#tables.records.range({ from, to, limit }).map(unpackRecord);
  }
}
