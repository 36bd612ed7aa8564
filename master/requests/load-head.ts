/**
 * Reads the fields of a packed load that identify the request and its sender. The load is not
 * unpacked, which would take much longer. The master can thus reject or delay a large request
 * before it unpacks the load.
 */

import {
  constantCode,
  emptyWireMap,
  loadLimits,
  type PayloadLimits,
  ProtocolError,
  unpackWire,
  type WireMap,
} from '#minion-protocol';

/**
 * Fields that identify a request and its sender, and the number of elements of its load. They are
 * determined without unpacking the load.
 */
export interface LoadHead {
  /**
   * Fields `cmd`, `id`, `nonce`, `tok` and `ts` of the load, if they are present. A value of more
   * than 2,048 bytes, which no valid field has, is replaced by `null`.
   */
  readonly fields: WireMap;
  /** Number of list elements and map entries in the whole load. */
  readonly elements: number;
}

/**
 * Maximum number of entries in the map that forms a large load, not counting nested maps. Salt's
 * loads have at most about twenty.
 */
const maxFields = 1_000;
const maxFieldBytes = 2048;
/** Limits of the name or value of one field. */
const fieldLimits: PayloadLimits = { ...loadLimits, maxBytes: maxFieldBytes };

const fieldNames: ReadonlySet<string> = new Set(['cmd', 'id', 'nonce', 'tok', 'ts']);
/**
 * Maximum size of the name of a field in MessagePack, in bytes: five bytes for the head, and five
 * characters.
 */
const maxNameBytes = 10;

/**
 * Returns the head of a load. If a field occurs twice, the last value is used, as when the load is
 * unpacked.
 * @param maxElements - maximum number of elements. Reading stops when it is exceeded
 * @throws ProtocolError ERR_BAD_PAYLOAD if the load is truncated, ERR_PAYLOAD_LIMIT if it has too
 * many elements or more than 1,000 fields, ERR_BAD_LOAD if it is not a map
 */
export function readLoadHead(packed: Uint8Array, maxElements: number): LoadHead {
  const scan = new LoadScan(packed, maxElements);
  const length = scan.mapLength();
  if (length === undefined) throw new ProtocolError('ERR_BAD_LOAD', 'the load is not a map');
  if (length > maxFields) {
    throw new ProtocolError('ERR_PAYLOAD_LIMIT', `the load has more than ${maxFields} fields`);
  }
  const fields = emptyWireMap();
  for (let entry = 0; entry < length; entry += 1) {
    const name = scan.name();
    const value = scan.value();
    if (name === undefined) continue;
    fields[name] = value.length > maxFieldBytes ? null : unpackWire(value, fieldLimits);
  }
  return { fields, elements: scan.elements };
}

/** Reading position in a packed load. Values are skipped, and their elements are counted. */
class LoadScan {
  readonly #bytes: Buffer;
  readonly #maxElements: number;
  #offset = 0;
  elements = 0;

  constructor(packed: Uint8Array, maxElements: number) {
    this.#maxElements = maxElements;
    this.#bytes = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength);
  }

  /**
   * Reads the head of the load. Returns the number of its entries, or `undefined` if the load is not
   * a map.
   */
  mapLength(): number | undefined {
    const head = this.#bytes[0] ?? 0;
    const isMap = head >> 4 === 0x8 || head === 0xde || head === 0xdf;
    if (!isMap) return undefined;
    this.#offset = 1;
    const length = head < 0x90 ? head & 0x0f : this.#length(head === 0xde ? 2 : 4);
    this.#enter(length, 2);
    return length;
  }

  /** Reads a key. Returns `undefined` if it is none of {@link fieldNames}. */
  name(): string | undefined {
    const packed = this.value();
    if (packed.length > maxNameBytes) return undefined;
    const name = unpackWire(packed, fieldLimits);
    return typeof name === 'string' && fieldNames.has(name) ? name : undefined;
  }

  /** Skips a value, and returns its packed form. */
  value(): Buffer {
    const start = this.#offset;
    for (let missing = 1; missing > 0; ) missing += this.#skip() - 1;
    return this.#bytes.subarray(start, this.#offset);
  }

  /**
   * Skips one value without the values inside it. Returns how many values inside it must be skipped
   * next; 0 if there are none.
   */
  #skip(): number {
    const head = this.#bytes[this.#take(1)] ?? 0;
    if (head < 0x80 || head >= 0xe0) return 0;
    if (head < 0x90) return this.#enter(head & 0x0f, 2);
    if (head < 0xa0) return this.#enter(head & 0x0f, 1);
    if (head < 0xc0) return this.#skipBytes(head & 0x1f);
    if (head >= 0xdc) return this.#enter(this.#length(2 << (head & 1)), head < 0xde ? 1 : 2);
    if (head >= 0xd9) return this.#skipBytes(this.#length(1 << (head - 0xd9)));
    if (head >= 0xd4) return this.#skipExtension(1 << (head - 0xd4));
    if (head >= 0xc7 && head <= 0xc9) return this.#skipExtension(this.#length(1 << (head - 0xc7)));
    if (head >= 0xc4 && head <= 0xc6) return this.#skipBytes(this.#length(1 << (head - 0xc4)));
    return this.#skipBytes(numberSizes[head - 0xc0] ?? 0);
  }

  #enter(length: number, valuesEach: 1 | 2): number {
    this.elements += length;
    if (this.elements > this.#maxElements) {
      const message = `the load has more than ${this.#maxElements} elements`;
      throw new ProtocolError('ERR_PAYLOAD_LIMIT', message);
    }
    return length * valuesEach;
  }

  #skipBytes(count: number): number {
    this.#take(count);
    return 0;
  }

  /**
   * Skips the start of a MessagePack extension. Returns the number of values that still belong to
   * it and must be skipped next. This is 1 for Salt's named constants, which contain a value, and 0
   * for all others.
   */
  #skipExtension(count: number): number {
    const code = this.#bytes[this.#take(1)];
    if (code !== constantCode) return this.#skipBytes(count);
    this.elements += 1;
    return 1;
  }

  #length(size: number): number {
    return this.#bytes.readUIntBE(this.#take(size), size);
  }

  #take(count: number): number {
    const start = this.#offset;
    if (count > this.#bytes.length - start) throw truncated();
    this.#offset = start + count;
    return start;
  }
}

/**
 * Number of bytes that follow each MessagePack head byte from c0 to d3, if the value is nil, a
 * boolean or a number.
 */
const numberSizes = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8];

function truncated(): ProtocolError {
  return new ProtocolError('ERR_BAD_PAYLOAD', 'invalid payload: the value is truncated');
}
