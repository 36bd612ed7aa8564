/** HMAC-SHA256 under one key [RFC 2104]. */

import { createHmac, type Hmac, hash } from 'node:crypto';

const hashBlockSize = 64;
const digestSize = 32;
const innerPad = 0x36;
const outerPad = 0x5c;
/** Bytes up to which the copy that two hashes need costs less than an object of OpenSSL's. */
const shortSize = 4096;

/** What the two hashes are of, one after the other: nothing is allocated for a message. */
const innerBuffer = Buffer.allocUnsafeSlow(hashBlockSize + shortSize);
const outerBuffer = Buffer.allocUnsafeSlow(hashBlockSize + digestSize);
const blockBuffer = Buffer.allocUnsafeSlow(hashBlockSize);

/** Makes HMACs; what is short takes two hashes instead of an object for each message. */
export class HmacKey {
  /** The key over one block, as latin1 text: a third of the memory that bytes take. */
  readonly #inner: string;
  readonly #outer: string;

  /** @param key at most 64 bytes; copied */
  constructor(key: Uint8Array) {
    if (key.length > hashBlockSize) throw new RangeError(`an HMAC key of ${key.length} bytes`);
    this.#inner = blockOf(key, innerPad);
    this.#outer = blockOf(key, outerPad);
  }

  /** Writes the HMAC of all of `bytes`, 32 bytes from `offset` on. */
  write(bytes: Uint8Array, target: Buffer, offset: number): void {
    if (bytes.length > shortSize) {
      target.set(this.begin().update(bytes).digest(), offset);
      return;
    }
    innerBuffer.write(this.#inner, 'latin1');
    innerBuffer.set(bytes, hashBlockSize);
    const inner = hash('sha256', innerBuffer.subarray(0, hashBlockSize + bytes.length), 'binary');
    outerBuffer.write(this.#outer, 'latin1');
    outerBuffer.write(inner, hashBlockSize, 'latin1');
    target.write(hash('sha256', outerBuffer, 'binary'), offset, 'latin1');
  }

  /** Of what comes in parts. */
  begin(): Hmac {
    const key = blockOf(Buffer.from(this.#inner, 'latin1'), innerPad);
    return createHmac('sha256', Buffer.from(key, 'latin1'));
  }
}

/** The key, with zeros behind it up to the size of a block, and `pad` over each byte. */
function blockOf(key: Uint8Array, pad: number): string {
  blockBuffer.fill(pad);
  key.forEach((byte, index) => {
    blockBuffer[index] = byte ^ pad;
  });
  return blockBuffer.toString('latin1');
}
