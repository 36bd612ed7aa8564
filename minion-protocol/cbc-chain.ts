/** AES-192-CBC with one key for many messages [NIST SP 800-38A 6.2]. */

import { type Cipher, createCipheriv, createDecipheriv, type Decipher } from 'node:crypto';

const cbcAlgorithm = 'aes-192-cbc';
const zeroBlock = Buffer.alloc(16);

/**
 * Encrypts and decrypts messages with OpenSSL objects that are used again, because creating one for
 * each message takes longer than encrypting a request. The CBC chain continues from one message to
 * the next. A message to encrypt starts with a random block. Its ciphertext is as random and serves
 * as the IV. When a message is decrypted, its first block is the IV, and the plaintext of this
 * block is meaningless.
 */
export class CbcChain {
  /** The key as latin1 text, which takes less memory than bytes. */
  readonly #key: string;
  #cipher: Cipher | undefined;
  #decipher: Decipher | undefined;

  /** @param key - 24 bytes, which are copied */
  constructor(key: Uint8Array) {
    this.#key = Buffer.from(key).toString('latin1');
  }

  /**
   * @param blocks - part of a message; the first part starts with a random block, and the last part
   * completes a 16-byte block
   */
  encrypt(blocks: Uint8Array): Buffer {
    this.#cipher ??= createCipheriv(cbcAlgorithm, this.#bytes(), zeroBlock).setAutoPadding(false);
    return this.#cipher.update(blocks);
  }

  /**
   * @param blocks - IV and ciphertext, a multiple of 16 bytes
   * @returns the same number of bytes; the first 16 are meaningless
   */
  decrypt(blocks: Uint8Array): Buffer {
    this.#decipher ??= createDecipheriv(cbcAlgorithm, this.#bytes(), zeroBlock).setAutoPadding(
      false,
    );
    return this.#decipher.update(blocks);
  }

  #bytes(): Buffer {
    return Buffer.from(this.#key, 'latin1');
  }
}
