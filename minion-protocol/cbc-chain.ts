/** AES-192-CBC under one key, message after message [NIST SP 800-38A 6.2]. */

import { type Cipher, createCipheriv, createDecipheriv, type Decipher } from 'node:crypto';

const cbcAlgorithm = 'aes-192-cbc';
const zeroBlock = Buffer.alloc(16);

/**
 * Keeps OpenSSL's objects: making one for each message takes longer than encrypting a request. The
 * chain goes on from one message to the next, which both directions allow for. A random block is
 * encrypted before the message, and what comes out is an IV that is just as random; a message's own
 * IV is decrypted before it, and what comes out means nothing.
 */
export class CbcChain {
  /** Latin1 text, which takes less memory than bytes. */
  readonly #key: string;
  #cipher: Cipher | undefined;
  #decipher: Decipher | undefined;

  /** @param key 24 bytes; copied */
  constructor(key: Uint8Array) {
    this.#key = Buffer.from(key).toString('latin1');
  }

  /** @param blocks of a message whose first piece began with a random block; whole at its end */
  encrypt(blocks: Uint8Array): Buffer {
    this.#cipher ??= createCipheriv(cbcAlgorithm, this.#bytes(), zeroBlock).setAutoPadding(false);
    return this.#cipher.update(blocks);
  }

  /** @param blocks IV and ciphertext, a multiple of 16 bytes @returns as much, nonsense first */
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
