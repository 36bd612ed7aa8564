import type { KeyObject } from 'node:crypto';
import { ProtocolError, parsePublicKey } from '../../minion-protocol/signing.ts';

/**
 * Imported public keys of minions, by their text. Importing parses ASN.1, so it is done once a
 * key; the oldest are forgotten beyond `capacity`.
 */
export class MinionKeyCache {
  readonly #capacity: number;
  readonly #keys = new Map<string, KeyObject>();

  constructor(capacity = 2_048) {
    this.#capacity = capacity;
  }

  /** The key of this text, or `undefined` if it is not a usable RSA key. */
  get(pem: string): KeyObject | undefined {
    const known = this.#keys.get(pem);
    if (known !== undefined) return known;
    try {
      const key = parsePublicKey(pem);
      this.#keys.set(pem, key);
      this.#forgetOldest();
      return key;
    } catch (error) {
      if (error instanceof ProtocolError) return undefined;
      throw error;
    }
  }

  #forgetOldest(): void {
    const [oldest] = this.#keys.keys();
    if (this.#keys.size > this.#capacity && oldest !== undefined) this.#keys.delete(oldest);
  }
}
