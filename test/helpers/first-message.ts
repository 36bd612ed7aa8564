/**
 * Encrypts a message with a given IV, so that the result equals recorded bytes. The IV is the
 * encryption of a random block.
 */

import { createDecipheriv } from 'node:crypto';
import { type CrypticleKey, parseKeyString } from '#minion-protocol';

/**
 * Returns a new key, and a random block. With this block, the first message of the key gets the IV.
 */
export function firstMessageWith(
  keyString: string,
  iv: Uint8Array,
): { readonly key: CrypticleKey; readonly random: Buffer } {
  const aesKey = Buffer.from(keyString, 'base64').subarray(0, 24);
  const block = createDecipheriv('aes-192-ecb', aesKey, null).setAutoPadding(false);
  return { key: parseKeyString(keyString), random: block.update(iv) };
}
