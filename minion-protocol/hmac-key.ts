/** HMAC-SHA256 under one key [RFC 2104]. */

import { createHmac, type Hmac, hash } from 'node:crypto';

const hashBlockSize = 64;
const digestSize = 32;
const innerPad = 0x36;
const outerPad = 0x5c;
/**
 * Maximum size of a short message, in bytes. For short messages, two plain hashes cost less than an
 * OpenSSL object.
 */
const shortSize = 4096;

/** Input buffers of the two hashes. They are used again, so that no message needs new memory. */
const innerBuffer = Buffer.allocUnsafeSlow(hashBlockSize + shortSize);
const outerBuffer = Buffer.allocUnsafeSlow(hashBlockSize + digestSize);
const blockBuffer = Buffer.allocUnsafeSlow(hashBlockSize);

/**
 * Computes HMACs with one key. Short messages use two plain hashes instead of an OpenSSL object
 * each.
 */
export class HmacKey {
  /** Padded key block as latin1 text, which takes a third of the memory of bytes. */
  readonly #inner: string;
  readonly #outer: string;

  /** @param key - at most 64 bytes, which are copied */
  constructor(key: Uint8Array) {
    if (key.length > hashBlockSize)
      throw new RangeError(`the HMAC key has ${key.length} bytes; the maximum is ${hashBlockSize}`);
    this.#inner = blockOf(key, innerPad);
    this.#outer = blockOf(key, outerPad);
  }

  /** Writes the HMAC of `bytes` to `target`: 32 bytes, starting at `offset`. */
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

  /** Starts the HMAC of a message that arrives in parts. */
  begin(): Hmac {
    const key = blockOf(Buffer.from(this.#inner, 'latin1'), innerPad);
    return createHmac('sha256', Buffer.from(key, 'latin1'));
  }
}

/** Returns the key padded with zeros to one hash block, each byte XORed with `pad`. */
function blockOf(key: Uint8Array, pad: number): string {
  blockBuffer.fill(pad);
  key.forEach((byte, index) => {
    blockBuffer[index] = byte ^ pad;
  });
  return blockBuffer.toString('latin1');
}
