/** HMAC-SHA256 of many messages with one key [RFC 2104]. */

import { createHmac, type Hmac, hash } from 'node:crypto';

const hashBlockSize = 64;
const digestSize = 32;
const innerPad = 0x36;
const outerPad = 0x5c;
/**
 * Maximum size of a short message, in bytes. For a short message, two calls of `hash` take less
 * time than the creation of an OpenSSL HMAC object.
 */
const shortSize = 4096;

/**
 * Buffer for the input of the inner hash of an HMAC: the key block and the message. The buffer is
 * reused, so that messages need no new memory.
 */
const innerBuffer = Buffer.allocUnsafeSlow(hashBlockSize + shortSize);
/**
 * Buffer for the input of the outer hash of an HMAC: the key block, and then the digest of the
 * inner hash. The buffer is reused, so that messages need no new memory.
 */
const outerBuffer = Buffer.allocUnsafeSlow(hashBlockSize + digestSize);
/** Memory in which {@link blockOf} computes a key block. */
const blockBuffer = Buffer.allocUnsafeSlow(hashBlockSize);

/**
 * Computes HMACs with one key. For a message of at most 4,096 bytes, it calls `hash` twice, which
 * is faster than an OpenSSL HMAC object.
 */
export class HmacKey {
  /**
   * Key block of the inner hash, as {@link blockOf} returns it. It is stored as Latin1 text, which
   * takes a third of the memory that a byte array would take.
   */
  readonly #inner: string;
  /**
   * First block of the outer hash of the HMAC: the key combined with a constant, as {@link blockOf}
   * returns it.
   */
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

  /** Returns an HMAC object for a message that the caller passes to it in parts. */
  begin(): Hmac {
    const key = blockOf(Buffer.from(this.#inner, 'latin1'), innerPad);
    return createHmac('sha256', Buffer.from(key, 'latin1'));
  }
}

/**
 * Returns a key block as latin1 text: the key, padded with zeros to 64 bytes, each byte XORed with
 * `pad`.
 */
function blockOf(key: Uint8Array, pad: number): string {
  blockBuffer.fill(pad);
  key.forEach((byte, index) => {
    blockBuffer[index] = byte ^ pad;
  });
  return blockBuffer.toString('latin1');
}
