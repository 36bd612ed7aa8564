/** HMAC-SHA256 under one key [RFC 2104]. */
import { createHmac, type Hmac, hash } from 'node:crypto';

const blockSize = 64;
const digestSize = 32;
/** Bytes up to which the copy that two hashes need costs less than an object of OpenSSL's. */
const shortSize = 4096;

/** Makes HMACs; what is short takes two hashes instead of an object for each message. */
export class HmacKey {
  readonly #key: Uint8Array;
  readonly #inner: Buffer = Buffer.alloc(blockSize, 0x36);
  /** Ends with the room for the inner digest. */
  readonly #outer: Buffer = Buffer.alloc(blockSize + digestSize, 0x5c);

  /** @param key at most 64 bytes */
  constructor(key: Uint8Array) {
    if (key.length > blockSize) throw new RangeError(`an HMAC key of ${key.length} bytes`);
    this.#key = key;
    key.forEach((byte, index) => {
      this.#inner[index] = byte ^ 0x36;
      this.#outer[index] = byte ^ 0x5c;
    });
  }

  /** Of all of `bytes`. */
  of(bytes: Uint8Array): Buffer {
    if (bytes.length > shortSize) return this.begin().update(bytes).digest();
    const inner = hash('sha256', Buffer.concat([this.#inner, bytes]), 'binary');
    this.#outer.write(inner, blockSize, 'latin1');
    return hash('sha256', this.#outer, 'buffer');
  }

  /** Of what comes in parts. */
  begin(): Hmac {
    return createHmac('sha256', this.#key);
  }
}
