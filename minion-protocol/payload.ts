/**
 * Encodes and decodes Salt's MessagePack, in the variants that Salt uses on the wire and locally
 * [WIRE 2; salt/payload.py, salt/utils/msgpack.py]. Libraries are unsuitable: they write str8,
 * which Salt does not use on the wire, and they corrupt a str that is not UTF-8. Salt sends
 * ciphertext in such a str.
 */

import type { WorkBudget } from '#runtime';
import { loadLimits, type PayloadLimits } from './payload-limits.ts';
import { PayloadReader } from './payload-reader.ts';
import { PackedSizeExceeded, PayloadWriter } from './payload-writer.ts';
import type { WireValue } from './wire-value.ts';

/**
 * Packs a value for the wire. As Salt does, text and bytes are both packed as MessagePack's old
 * type raw.
 * @throws TypeError for `undefined` and other values that cannot be packed
 */
export function packWire(value: WireValue): Buffer {
  const writer = new PayloadWriter('wire');
  writer.write(value);
  return writer.finish();
}

/** Several texts in packed form, each directly after the previous one. */
export interface PackedTexts {
  readonly bytes: Buffer;
  /** Offset of each text in `bytes`, followed by the length of `bytes`. */
  readonly offsets: Uint32Array;
}

/** Packs texts for the wire one after the other, without a list around them. */
export function packWireTexts(texts: readonly string[]): PackedTexts {
  const writer = new PayloadWriter('wire');
  const offsets = new Uint32Array(texts.length + 1);
  for (const [index, text] of texts.entries()) {
    writer.write(text);
    offsets[index + 1] = writer.length;
  }
  return { bytes: writer.finish(), offsets };
}

/** Returns the bytes that begin a packed list with this number of elements. */
export function packListHead(length: number): Buffer {
  const writer = new PayloadWriter('wire');
  writer.listHead(length);
  return writer.finish();
}

/** Returns the bytes that begin a packed map with this number of entries. */
export function packMapHead(length: number): Buffer {
  const writer = new PayloadWriter('wire');
  writer.mapHead(length);
  return writer.finish();
}

/** Maximum number of entries of a map that MessagePack encodes with a head of one byte (fixmap). */
const maxShortMap = 15;

/**
 * Packs a map whose values are already packed for the wire.
 * @throws RangeError for more than 15 entries
 */
export function packWireMap(packed: Readonly<Record<string, Uint8Array>>): Buffer {
  const entries = Object.entries(packed);
  if (entries.length > maxShortMap)
    throw new RangeError(`the map has more than ${maxShortMap} entries`);
  const head = Buffer.from([0x80 | entries.length]);
  return Buffer.concat([head, ...entries.flatMap(([key, value]) => [packWire(key), value])]);
}

/**
 * Unpacks a value from the wire. Valid UTF-8 becomes text, the rest stays bytes. Byte values are
 * views into `bytes`: copy them if you store them.
 * @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function unpackWire(bytes: Uint8Array, limits: PayloadLimits = loadLimits): WireValue {
  return new PayloadReader(bytes, 'wire', limits).readAll();
}

/** Unpacks a value like {@link unpackWire}, and counts its list elements and map entries. */
export function unpackAndCount(
  bytes: Uint8Array,
  limits: PayloadLimits,
): { readonly value: WireValue; readonly elements: number } {
  const reader = new PayloadReader(bytes, 'wire', limits);
  return { value: reader.readAll(), elements: reader.elements };
}

/**
 * Unpacks a value like {@link unpackWire}, in slices. Other work runs between the slices. A map
 * with very many entries (`maxObjectEntries` of `payload-reader.ts`) is returned as a `Map`.
 * @param budget - work budget. Its owner takes turns with the owners of other work
 * @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function unpackWireInSlices(
  bytes: Uint8Array,
  limits: PayloadLimits,
  budget: WorkBudget,
): Promise<WireValue> {
  return readInSlices(new PayloadReader(bytes, 'wire', limits), budget);
}

/**
 * Unpacks a value, and returns every text and every map key as bytes. Minions unpack the reply to
 * `_serve_file` in this way.
 * @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function unpackRaw(bytes: Uint8Array, limits: PayloadLimits = loadLimits): WireValue {
  return new PayloadReader(bytes, 'raw', limits).readAll();
}

/**
 * Packs a value for event sockets and local files. Text becomes str, and bytes become bin.
 * @throws TypeError for a value that cannot be packed
 */
export function packLocal(value: WireValue): Buffer {
  const writer = new PayloadWriter('local');
  writer.write(value);
  return writer.finish();
}

/**
 * Packs a value like {@link packLocal}. Returns `undefined` if the packed form exceeds `maxBytes`;
 * the rest of the value is then not read.
 */
export function packLocalWithin(value: WireValue, maxBytes: number): Buffer | undefined {
  const writer = new PayloadWriter('local', maxBytes);
  try {
    writer.write(value);
  } catch (error) {
    if (error instanceof PackedSizeExceeded) return undefined;
    throw error;
  }
  const packed = writer.finish();
  return packed.length > maxBytes ? undefined : packed;
}

/**
 * Unpacks a value from an event socket or local file. Text is returned as text, and bin as bytes
 * (views of `bytes`).
 * @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function unpackLocal(bytes: Uint8Array, limits: PayloadLimits = loadLimits): WireValue {
  return new PayloadReader(bytes, 'local', limits).readAll();
}

/**
 * Unpacks a value like {@link unpackLocal}, in slices. See {@link unpackWireInSlices}.
 * @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function unpackLocalInSlices(
  bytes: Uint8Array,
  limits: PayloadLimits,
  budget: WorkBudget,
): Promise<WireValue> {
  return readInSlices(new PayloadReader(bytes, 'local', limits), budget);
}

async function readInSlices(reader: PayloadReader, budget: WorkBudget): Promise<WireValue> {
  const reading = reader.readInSteps();
  for (;;) {
    const { done, value } = reading.next();
    if (done) return value;
    await budget.giveWayAfter(value);
  }
}

/** Unpacks a value like {@link unpackLocal}, and counts its list elements and map entries. */
export function unpackLocalAndCount(
  bytes: Uint8Array,
  limits: PayloadLimits,
): { readonly value: WireValue; readonly elements: number } {
  const reader = new PayloadReader(bytes, 'local', limits);
  return { value: reader.readAll(), elements: reader.elements };
}

/**
 * Codec for stored fields that contain wire values. It uses {@link packLocal} and
 * {@link unpackLocal}.
 */
export const localField: {
  pack(value: WireValue): Uint8Array;
  unpack(bytes: Uint8Array): WireValue;
} = {
  pack: packLocal,
  unpack: (bytes: Uint8Array): WireValue => unpackLocal(bytes),
};
