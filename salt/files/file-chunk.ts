/**
 * The reply to `_serve_file` [WIRE 9.8]:
 *
 * {data: bytes, dest: path, [gzip: level]}
 */

import { packWire } from '#minion-protocol';

/** A part of a file, as sent in one reply. */
export interface FileChunk {
  readonly data: Uint8Array;
  /** Relative path of the file; empty if the file does not exist. */
  readonly dest: string;
  /** Compression level of `data`. Absent if `data` is not compressed. */
  readonly gzip?: number;
}

const mapOfTwo = 0x82;
const mapOfThree = 0x83;
const raw32 = 0xdb;
const longest16 = 0xffff;

/**
 * Packs a chunk as a reply. The returned arrays, one after the other, are the bytes of the reply.
 * If `data` exceeds 64 KiB, one of the arrays is `data` itself, so that it is not copied.
 */
export function packFileChunk({ data, dest, gzip }: FileChunk): Uint8Array[] {
  const rest = gzip === undefined ? { dest } : { dest, gzip };
  if (data.length <= longest16) return [packWire({ data, ...rest })];
  const head = Buffer.concat([
    Buffer.from([gzip === undefined ? mapOfTwo : mapOfThree]),
    packWire('data'),
    Buffer.from([raw32, 0, 0, 0, 0]),
  ]);
  head.writeUInt32BE(data.length, head.length - 4);
  // The other entries of the map, without its header byte.
  return [head, data, packWire(rest).subarray(1)];
}
