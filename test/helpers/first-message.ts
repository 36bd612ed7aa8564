/** Sealing to recorded bytes: the IV of a message comes out of a random block that is encrypted. */

import { createDecipheriv } from 'node:crypto';
import { type CrypticleKey, parseKeyString } from '#minion-protocol';

/** A new key, and the random block by which its first message has this IV. */
export function firstMessageWith(
  keyString: string,
  iv: Uint8Array,
): { readonly key: CrypticleKey; readonly random: Buffer } {
  const aesKey = Buffer.from(keyString, 'base64').subarray(0, 24);
  const block = createDecipheriv('aes-192-ecb', aesKey, null).setAutoPadding(false);
  return { key: parseKeyString(keyString), random: block.update(iv) };
}
