/** HMAC-SHA256 under one key [RFC 2104]. */
import { createHmac, type Hmac, hash } from 'node:crypto';

const blockSize = 64;
const digestSize = 32;
/** Bytes up to which the copy that two hashes need costs less than an object of OpenSSL's. */
const shortSize = 4096;

/** What the two hashes are of, one after the other: nothing is allocated for a message. */
const innerRoom = Buffer.allocUnsafeSlow(blockSize + shortSize);
const outerRoom = Buffer.allocUnsafeSlow(blockSize + digestSize);

/** Makes HMACs; what is short takes two hashes instead of an object for each message. */
export class HmacKey {
  readonly #key: Uint8Array;
  readonly #inner = new Uint8Array(blockSize).fill(0x36);
  readonly #outer = new Uint8Array(blockSize).fill(0x5c);

  /** @param key at most 64 bytes; copied */
  constructor(key: Uint8Array) {
    if (key.length > blockSize) throw new RangeError(`an HMAC key of ${key.length} bytes`);
    this.#key = new Uint8Array(key);
    key.forEach((byte, index) => {
      this.#inner[index] = byte ^ 0x36;
      this.#outer[index] = byte ^ 0x5c;
    });
  }

  /** Writes the HMAC of all of `bytes`, 32 bytes from `offset` on. */
  write(bytes: Uint8Array, target: Buffer, offset: number): void {
    if (bytes.length > shortSize) {
      target.set(this.begin().update(bytes).digest(), offset);
      return;
    }
    innerRoom.set(this.#inner);
    innerRoom.set(bytes, blockSize);
    const inner = hash('sha256', innerRoom.subarray(0, blockSize + bytes.length), 'binary');
    outerRoom.set(this.#outer);
    outerRoom.write(inner, blockSize, 'latin1');
    target.write(hash('sha256', outerRoom, 'binary'), offset, 'latin1');
  }

  /** Of what comes in parts. */
  begin(): Hmac {
    return createHmac('sha256', this.#key);
  }
}
