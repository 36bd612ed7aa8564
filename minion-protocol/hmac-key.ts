/** HMAC-SHA256 under one key [RFC 2104]. */
import { createHmac, type Hmac, hash } from 'node:crypto';

const blockSize = 64;
const digestSize = 32;
const innerPad = 0x36;
const outerPad = 0x5c;
/** Bytes up to which the copy that two hashes need costs less than an object of OpenSSL's. */
const shortSize = 4096;

/** What the two hashes are of, one after the other: nothing is allocated for a message. */
const innerRoom = Buffer.allocUnsafeSlow(blockSize + shortSize);
const outerRoom = Buffer.allocUnsafeSlow(blockSize + digestSize);
const blockRoom = Buffer.allocUnsafeSlow(blockSize);

/** Makes HMACs; what is short takes two hashes instead of an object for each message. */
export class HmacKey {
  /** The key over one block, as latin1 text: a third of the memory that bytes take. */
  readonly #inner: string;
  readonly #outer: string;

  /** @param key at most 64 bytes; copied */
  constructor(key: Uint8Array) {
    if (key.length > blockSize) throw new RangeError(`an HMAC key of ${key.length} bytes`);
    this.#inner = blockOf(key, innerPad);
    this.#outer = blockOf(key, outerPad);
  }

  /** Writes the HMAC of all of `bytes`, 32 bytes from `offset` on. */
  write(bytes: Uint8Array, target: Buffer, offset: number): void {
    if (bytes.length > shortSize) {
      target.set(this.begin().update(bytes).digest(), offset);
      return;
    }
    innerRoom.write(this.#inner, 'latin1');
    innerRoom.set(bytes, blockSize);
    const inner = hash('sha256', innerRoom.subarray(0, blockSize + bytes.length), 'binary');
    outerRoom.write(this.#outer, 'latin1');
    outerRoom.write(inner, blockSize, 'latin1');
    target.write(hash('sha256', outerRoom, 'binary'), offset, 'latin1');
  }

  /** Of what comes in parts. */
  begin(): Hmac {
    const key = blockOf(Buffer.from(this.#inner, 'latin1'), innerPad);
    return createHmac('sha256', Buffer.from(key, 'latin1'));
  }
}

/** The key, with zeros behind it up to the size of a block, and `pad` over each byte. */
function blockOf(key: Uint8Array, pad: number): string {
  blockRoom.fill(pad);
  key.forEach((byte, index) => {
    blockRoom[index] = byte ^ pad;
  });
  return blockRoom.toString('latin1');
}
