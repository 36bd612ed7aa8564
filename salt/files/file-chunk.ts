/**
 * The answer to `_serve_file` [WIRE 9.8]:
 *
 * {data: bytes, dest: path, [gzip: level]}
 */

import { packWire } from '#minion-protocol';

/** A part of a file. */
export interface FileChunk {
  readonly data: Uint8Array;
  /** The file's relative path; empty if there is none. */
  readonly dest: string;
  /** Level that `data` was compressed with, if it was. */
  readonly gzip?: number;
}

const mapOfTwo = 0x82;
const mapOfThree = 0x83;
const raw32 = 0xdb;
const longest16 = 0xffff;

/** Packs it, in pieces that make it up one after the other; a large `data` is one as it is. */
export function packFileChunk({ data, dest, gzip }: FileChunk): Uint8Array[] {
  const rest = gzip === undefined ? { dest } : { dest, gzip };
  if (data.length <= longest16) return [packWire({ data, ...rest })];
  const head = Buffer.concat([
    Buffer.from([gzip === undefined ? mapOfTwo : mapOfThree]),
    packWire('data'),
    Buffer.from([raw32, 0, 0, 0, 0]),
  ]);
  head.writeUInt32BE(data.length, head.length - 4);
  // The other entries, without the head of their own map.
  return [head, data, packWire(rest).subarray(1)];
}
