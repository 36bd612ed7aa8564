import type { StreamStep, WriteStep } from '#store';

/**
 * Point in the history of a store: a position in the log, with a hash of all entries up to this
 * position. If two members have the same content at a position, their points are equal.
 */
export interface HistoryMark {
  /**
   * Identifier of the log. If a new log replaces a lost log, the new log has another identifier.
   */
  readonly log: string;
  readonly position: number;
  /** Running hash over all entries and their changes, in hexadecimal. */
  readonly hash: string;
}

/** Content of an entry of the log. */
export type EntryContent =
  /**
   * The first entry of a log. Only stores whose history ends at the point `from` can follow the
   * log. If `from` is absent, only empty stores can follow it.
   */
  | { readonly kind: 'found'; readonly from?: HistoryMark }
  /**
   * A member has opened its store and begun a new session. Later entries of the member's previous
   * session have no effect.
   */
  | { readonly kind: 'open' }
  | { readonly kind: 'leave'; readonly member: string }
  /** A member has created a backup with all entries up to this position. */
  | { readonly kind: 'snapshot'; readonly position: number }
  /** An entry without content, for waiting until all earlier entries are applied. */
  | { readonly kind: 'barrier' }
  /** Transactions in the encoding of {@link encodeTransaction}. */
  | { readonly kind: 'transactions'; readonly transactions: readonly Buffer[] };

/** An entry of the log in decrypted form. */
export interface EntryBody {
  readonly member: string;
  /** Time at which the member wrote the entry, on its own clock, in milliseconds since 1970. */
  readonly time: number;
  /**
   * Last entry of the log that the member had applied when it wrote this entry: its position, and
   * the hash of the history up to it.
   */
  readonly known: HistoryMark;
  readonly content: EntryContent;
}

/** A write to the store, or a change of a stream: trimming it, or acknowledging its records. */
export type Transaction =
  | { readonly type: 'write'; readonly steps: readonly WriteStep[] }
  | { readonly type: 'stream'; readonly step: StreamStep };

const kinds = ['found', 'open', 'leave', 'snapshot', 'barrier', 'transactions'] as const;
const noRevision = -1;

/** Maximum size of an entry's head, in bytes. */
export const entryHeadBytes = 1024;
/** Overhead of a transaction in an entry, in bytes. */
export const transactionHeadBytes = 4;

/** Encodes an entry. The result is encrypted before it is appended to the log. */
export function encodeEntry({ member, time, known, content }: EntryBody): Buffer {
  const head = new ByteWriter()
    .byte(kinds.indexOf(content.kind))
    .text(member)
    .number(time)
    .text(known.log)
    .number(known.position)
    .text(known.hash);
  if (content.kind !== 'transactions') return head.text(JSON.stringify(content)).bytes();
  head.number(content.transactions.length);
  for (const transaction of content.transactions) head.buffer(transaction);
  return head.bytes();
}

/**
 * Decodes the bytes that {@link encodeEntry} returned.
 * @throws Error for other bytes
 */
export function decodeEntry(bytes: Buffer): EntryBody {
  const reader = new ByteReader(bytes);
  const kind = kinds[reader.byte()];
  const member = reader.text();
  const time = reader.number();
  const known = { log: reader.text(), position: reader.number(), hash: reader.text() };
  if (kind !== 'transactions') {
    const content: EntryContent = JSON.parse(reader.text());
    return { member, time, known, content };
  }
  const transactions = Array.from({ length: reader.number() }, () => reader.buffer());
  return { member, time, known, content: { kind, transactions } };
}

/** Encodes a transaction for an entry of the kind `transactions`. */
export function encodeTransaction(transaction: Transaction): Buffer {
  const writer = new ByteWriter();
  if (transaction.type === 'stream') {
    return writer.byte(0).text(JSON.stringify(transaction.step)).bytes();
  }
  writer.byte(1).number(transaction.steps.length);
  for (const step of transaction.steps) encodeStep(writer, step);
  return writer.bytes();
}

/** Decodes the bytes that {@link encodeTransaction} returned. */
export function decodeTransaction(bytes: Buffer): Transaction {
  const reader = new ByteReader(bytes);
  if (reader.byte() === 0) return { type: 'stream', step: JSON.parse(reader.text()) };
  const steps = Array.from({ length: reader.number() }, () => decodeStep(reader));
  return { type: 'write', steps };
}

const steps = ['put', 'delete', 'require', 'delete-prefix', 'append'] as const;

function encodeStep(writer: ByteWriter, step: WriteStep): void {
  writer.byte(steps.indexOf(step.op));
  switch (step.op) {
    case 'put':
      writer.buffer(step.key).buffer(step.row);
      writer.number(step.expiresAt).number(step.ifRevision ?? noRevision);
      return;
    case 'delete':
      writer.buffer(step.key).number(step.ifRevision ?? noRevision);
      return;
    case 'require':
      writer.buffer(step.key).number(step.ifRevision);
      return;
    case 'delete-prefix':
      writer.buffer(step.prefix);
      return;
    case 'append':
      writer.text(step.stream).buffer(step.value);
  }
}

function decodeStep(reader: ByteReader): WriteStep {
  const op = steps[reader.byte()];
  switch (op) {
    case 'put':
      return {
        op,
        key: reader.buffer(),
        // The bytes are copied, because a revision is written into them later.
        row: Buffer.from(reader.buffer()),
        expiresAt: reader.number(),
        ifRevision: reader.revision(),
      };
    case 'delete':
      return { op, key: reader.buffer(), ifRevision: reader.revision() };
    case 'require':
      return { op, key: reader.buffer(), ifRevision: reader.number() };
    case 'delete-prefix':
      return { op, prefix: reader.buffer() };
    case 'append':
      return { op, stream: reader.text(), value: reader.buffer() };
    default:
      throw new RangeError(
        'the cluster log has an entry of a later version of saltbridge; upgrade this member',
      );
  }
}

class ByteWriter {
  readonly #parts: Buffer[] = [];

  byte(value: number): this {
    this.#parts.push(Buffer.of(value));
    return this;
  }

  number(value: number): this {
    const bytes = Buffer.allocUnsafe(8);
    bytes.writeDoubleBE(value);
    this.#parts.push(bytes);
    return this;
  }

  buffer(value: Buffer): this {
    const length = Buffer.allocUnsafe(4);
    length.writeUInt32BE(value.length);
    this.#parts.push(length, value);
    return this;
  }

  text(value: string): this {
    return this.buffer(Buffer.from(value));
  }

  bytes(): Buffer {
    return Buffer.concat(this.#parts);
  }
}

class ByteReader {
  readonly #bytes: Buffer;
  #offset = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  byte(): number {
    this.#offset += 1;
    return this.#bytes.readUInt8(this.#offset - 1);
  }

  number(): number {
    this.#offset += 8;
    return this.#bytes.readDoubleBE(this.#offset - 8);
  }

  revision(): number | undefined {
    const revision = this.number();
    return revision === noRevision ? undefined : revision;
  }

  buffer(): Buffer {
    const length = this.#bytes.readUInt32BE(this.#offset);
    const start = this.#offset + 4;
    if (start + length > this.#bytes.length)
      throw new RangeError('an entry of the cluster log is truncated');
    this.#offset = start + length;
    return this.#bytes.subarray(start, this.#offset);
  }

  text(): string {
    return this.buffer().toString();
  }
}
