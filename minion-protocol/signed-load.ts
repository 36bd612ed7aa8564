/**
 * Verifies the signatures that minions add to their loads with `minion_sign_messages` [WIRE 9.4,
 * 23.2; salt/minion.py, salt/serializers/msgpack.py].
 */
import { isUtf8 } from 'node:buffer';
import type { KeyObject } from 'node:crypto';
import { endOfValue } from './payload-scanner.ts';
import { rsaVerify, type SigningAlgorithm } from './rsa.ts';

/**
 * Fields that the signature does not cover. The first set applies to releases since 3006.26 and
 * 3008.1, the second one to earlier releases.
 */
const unsigned: readonly ReadonlySet<string>[] = [
  new Set(['sig', 'nonce', 'tok']),
  new Set(['sig', 'nonce', 'tok', '_stamp', 'ts']),
];
/** Algorithms for verifying a signature. They are tried one after the other until one succeeds. */
const algorithms: readonly SigningAlgorithm[] = ['PKCS1v15-SHA1', 'PKCS1v15-SHA224'];
const noLimits = { maxBytes: Infinity, maxDepth: Infinity, maxElements: Infinity };

/**
 * Whether the owner of the key signed the load, in any of the forms that minions use. Slow, because
 * it uses RSA. If a recent minion signed binary values that are valid UTF-8, the result is `false`.
 * These values arrive as text, so the bytes that were signed cannot be restored.
 * @param packed - the load as it arrived; it must already have been unpacked successfully
 */
export function isSignedLoad(
  publicKey: KeyObject,
  packed: Uint8Array,
  signature: Uint8Array,
): boolean {
  const entries = entriesOf(Buffer.from(packed.buffer, packed.byteOffset, packed.length));
  return unsigned.some((names) => {
    const signed = entries.filter(({ name }) => !names.has(name));
    const old = [headOfMap(signed.length), ...signed.map(({ bytes }) => bytes)];
    const recent = old.flatMap(withTypedText);
    return [Buffer.concat(recent), Buffer.concat(old)].some((form) =>
      algorithms.some((algorithm) => rsaVerify(publicKey, form, signature, algorithm)),
    );
  });
}

interface Entry {
  readonly name: string;
  /** Name and value of the field in MessagePack, as received. */
  readonly bytes: Buffer;
}

function entriesOf(load: Buffer): Entry[] {
  const entries: Entry[] = [];
  for (let start = 1 + lengthBytes(load, 0); start < load.length; ) {
    const nameEnd = endOfValue(load, start, noLimits) ?? load.length;
    const end = endOfValue(load, nameEnd, noLimits) ?? load.length;
    const name = load.toString('utf8', start + 1 + lengthBytes(load, start), nameEnd);
    entries.push({ name, bytes: load.subarray(start, end) });
    start = end;
  }
  return entries;
}

function headOfMap(size: number): Buffer {
  return size < 16 ? Buffer.of(0x80 | size) : Buffer.of(0xde, size >> 8, size & 0xff);
}

/**
 * Returns how many bytes after the first byte of a MessagePack value contain its length or, for a
 * number, the number itself. Returns 0 if the first byte contains them.
 */
function lengthBytes(bytes: Buffer, offset: number): number {
  const head = bytes[offset] ?? 0;
  return head < 0xc0 || head >= 0xe0 ? 0 : (argumentBytes[head - 0xc0] ?? 0);
}

/**
 * Results of {@link lengthBytes} for values with the first bytes 0xc0 to 0xdf, in order. For
 * numbers and extensions of fixed size, the content is included.
 */
const argumentBytes: readonly number[] = [
  ...[0, 0, 0, 0, 1, 2, 4, 1, 2, 4, 4, 8, 1, 2, 4, 8],
  ...[1, 2, 4, 8, 2, 3, 5, 9, 17, 1, 2, 4, 2, 4, 2, 4],
];

/**
 * Repacks a value so that text and bytes have different types, as minions do before they sign. On
 * the wire, both have the same type. All other bytes stay unchanged.
 */
function withTypedText(packed: Buffer): Buffer[] {
  const pieces: Buffer[] = [];
  let copied = 0;
  for (let offset = 0; offset < packed.length; ) {
    const head = packed[offset] ?? 0;
    const start = offset + 1 + lengthBytes(packed, offset);
    const length = textLength(packed, offset, head, start);
    if (length === undefined) {
      offset = start + extensionLength(packed, offset, head, start);
      continue;
    }
    const text = packed.subarray(start, start + length);
    pieces.push(
      packed.subarray(copied, offset),
      isUtf8(text) ? headOfText(length) : headOfBytes(length),
      text,
    );
    offset = start + length;
    copied = offset;
  }
  return [...pieces, packed.subarray(copied)];
}

function textLength(
  packed: Buffer,
  offset: number,
  head: number,
  start: number,
): number | undefined {
  if (head >= 0xa0 && head < 0xc0) return head & 0x1f;
  const isText = (head >= 0xd9 && head <= 0xdb) || (head >= 0xc4 && head <= 0xc6);
  return isText ? packed.readUIntBE(offset + 1, start - offset - 1) : undefined;
}

/**
 * Returns the number of bytes that follow the length field of a MessagePack extension: its type
 * (one byte) and its data. Returns 0 for all other values, and for extensions of fixed size:
 * {@link argumentBytes} contains the sizes of those.
 */
function extensionLength(packed: Buffer, offset: number, head: number, start: number): number {
  if (head < 0xc7 || head > 0xc9) return 0;
  return 1 + packed.readUIntBE(offset + 1, start - offset - 1);
}

function headOfText(length: number): Buffer {
  return length < 32 ? Buffer.of(0xa0 | length) : headOfLength(0xd9, length);
}

function headOfBytes(length: number): Buffer {
  return headOfLength(0xc4, length);
}

/**
 * Returns the encoded head of a text or byte string: its first byte, followed by its length in 1, 2
 * or 4 bytes.
 * @param first - first byte of a head whose length takes 1 byte. For 2 bytes, the head begins with
 * `first + 1`; for 4 bytes, with `first + 2`
 */
function headOfLength(first: number, length: number): Buffer {
  if (length < 0x100) return Buffer.of(first, length);
  const size = length < 0x10000 ? 2 : 4;
  const head = Buffer.alloc(1 + size, first + (size === 2 ? 1 : 2));
  head.writeUIntBE(length, 1, size);
  return head;
}
