/**
 * Salt's MessagePack dialects: values ⇄ bytes [WIRE 2; salt/payload.py, salt/utils/msgpack.py].
 * A writer and reader of our own with a dialect each: libraries write str8 where Salt has none, and
 * damage a str that is not UTF-8, which is how Salt sends ciphertext.
 */
import { type PayloadLimits, PayloadReader } from './payload-reader.ts';
import { PayloadWriter } from './payload-writer.ts';
import type { WireValue } from './wire-value.ts';

const mebibyte = 1024 * 1024;

/** What a stranger may send [THREATS N-03, N-04]. */
export const clearLimits: PayloadLimits = {
  maxBytes: mebibyte,
  maxDepth: 8,
  maxElements: 100_000,
};

/**
 * What an authenticated peer may send. Twice the depth and more elements than THREATS N-04 says,
 * because real returns come near: a Kubernetes resource definition, whose schema nests two levels a
 * field, reaches 30 inside a state return, and a repository's list of packages 130,000 elements.
 */
export const loadLimits: PayloadLimits = {
  maxBytes: 16 * mebibyte,
  maxDepth: 64,
  maxElements: 250_000,
};

/** Packs as Salt packs for the wire: raw family only. @throws TypeError on `undefined` and the like */
export function packWire(value: WireValue): Buffer {
  const writer = new PayloadWriter('wire');
  writer.write(value);
  return writer.finish();
}

/**
 * Reads what came over the wire: whatever is valid UTF-8 becomes text, the rest stays bytes. Byte
 * values are views into `bytes`: copy what is kept.
 * @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function unpackWire(bytes: Uint8Array, limits: PayloadLimits = loadLimits): WireValue {
  return new PayloadReader(bytes, 'wire', limits).readAll();
}

/**
 * Reads with every text left as bytes, map keys too, as a minion reads the answer to `_serve_file`.
 * @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function unpackRaw(bytes: Uint8Array, limits: PayloadLimits = loadLimits): WireValue {
  return new PayloadReader(bytes, 'raw', limits).readAll();
}

/** Packs for event sockets and files on the host: text as str, bytes as bin. @throws TypeError */
export function packLocal(value: WireValue): Buffer {
  const writer = new PayloadWriter('local');
  writer.write(value);
  return writer.finish();
}

/**
 * Reads the local dialect: bin stays bytes (views into `bytes`), text is text.
 * @throws ProtocolError ERR_BAD_PAYLOAD, ERR_PAYLOAD_LIMIT
 */
export function unpackLocal(bytes: Uint8Array, limits: PayloadLimits = loadLimits): WireValue {
  return new PayloadReader(bytes, 'local', limits).readAll();
}

export type { PayloadLimits } from './payload-reader.ts';
export type { WireMap, WireValue } from './wire-value.ts';
export { WireDateTime, WireExtension } from './wire-value.ts';
