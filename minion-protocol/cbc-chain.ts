/** AES-192-CBC with one key for many messages [NIST SP 800-38A 6.2]. */

import { type Cipher, createCipheriv, createDecipheriv, type Decipher } from 'node:crypto';

const cbcAlgorithm = 'aes-192-cbc';
const zeroBlock = Buffer.alloc(16);

/**
 * Encrypts and decrypts messages with one OpenSSL cipher and one decipher for all messages. A new
 * object for each message would take longer than the encryption of a request. The CBC chain
 * therefore continues from one message to the next.
 *
 * A message to encrypt starts with a random block. The ciphertext of this block is random, too, and
 * is the IV of the message. When a message is decrypted, its first block is the IV, and the
 * plaintext of this block is meaningless.
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
   * Encrypts a whole message.
   *
   * @param blocks - bytes to encrypt: a random block, followed by the message. Their number is a
   * multiple of 16
   */
  encrypt(blocks: Uint8Array): Buffer {
    this.#cipher ??= createCipheriv(cbcAlgorithm, this.#bytes(), zeroBlock).setAutoPadding(false);
    return this.#cipher.update(blocks);
  }

  /**
   * Returns a function that encrypts one message in parts. The message must start with a random
   * block. Other messages can be encrypted meanwhile.
   */
  createEncryption(): (bytes: Uint8Array) => Buffer {
    const cipher = createCipheriv(cbcAlgorithm, this.#bytes(), zeroBlock).setAutoPadding(false);
    return (bytes) => cipher.update(bytes);
  }

  /**
   * Decrypts a whole message.
   * @param blocks - IV and ciphertext, a multiple of 16 bytes
   * @returns the same number of bytes; the first 16 are meaningless
   */
  decrypt(blocks: Uint8Array): Buffer {
    this.#decipher ??= createDecipheriv(cbcAlgorithm, this.#bytes(), zeroBlock).setAutoPadding(
      false,
    );
    return this.#decipher.update(blocks);
  }

  /**
   * Returns a function that decrypts one message in parts. Each part is a multiple of 16 bytes. Other
   * messages can be decrypted meanwhile.
   */
  createDecryption(): (blocks: Uint8Array) => Buffer {
    const decipher = createDecipheriv(cbcAlgorithm, this.#bytes(), zeroBlock).setAutoPadding(false);
    return (blocks) => decipher.update(blocks);
  }

  #bytes(): Buffer {
    return Buffer.from(this.#key, 'latin1');
  }
}
