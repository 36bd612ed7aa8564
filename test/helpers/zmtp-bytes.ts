/** Bytes of ZMTP peers: recorded ones, and functions to create invalid ones. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Returns the recorded bytes of libzmq 4.3.5; see test/fixtures/zmtp/README.md. */
export function recorded(what: string): Buffer {
  const path = join('test', 'fixtures', 'zmtp', `libzmq-4.3.5-${what}.hex`);
  return hex(readFileSync(path, 'utf8'));
}

export function hex(digits: string): Buffer {
  return Buffer.from(digits.replace(/\s+/g, ''), 'hex');
}

/** The greeting of libzmq clients. */
export const GREETING: Buffer = recorded('req').subarray(0, 64);
export const READY_REQ: Buffer = recorded('req').subarray(64, 64 + 40);
export const READY_DEALER: Buffer = recorded('dealer').subarray(64, 64 + 52);
export const READY_SUB: Buffer = recorded('sub-to-3.0').subarray(64, 64 + 27);
/** The message `[empty][hello]`, as a REQ socket sends it. */
export const HELLO: Buffer = recorded('req').subarray(64 + 40);

/** Returns a short frame. */
export function frame(flags: number, body: string | Uint8Array): Buffer {
  const bytes = Buffer.from(body);
  return Buffer.concat([Buffer.from([flags, bytes.length]), bytes]);
}

/** Returns the header of a long frame, without the body. */
export function longHeader(flags: number, length: bigint): Buffer {
  const header = Buffer.alloc(9);
  header[0] = flags;
  header.writeBigUInt64BE(length, 1);
  return header;
}
