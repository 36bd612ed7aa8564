/**
 * Ed25519 keys of sites and centres. Each signature covers its purpose, so that it is not valid for
 * another purpose.
 */

import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto';

/** Size of a public key and of a seed, in bytes. */
export const keyBytes = 32;

/** Size of a signature, in bytes. */
export const signatureBytes = 64;

/** First bytes of an Ed25519 key in PKCS #8 [RFC 8410]. The seed follows them. */
const seedHead = Buffer.from('302e020100300506032b657004220420', 'hex');

/** Generates a private key. */
export function generateKey(): KeyObject {
  return generateKeyPairSync('ed25519').privateKey;
}

/** Returns the private key that belongs to a seed of 32 bytes. */
export function keyOfSeed(seed: Uint8Array): KeyObject {
  const key = Buffer.concat([seedHead, seed]);
  return createPrivateKey({ key, format: 'der', type: 'pkcs8' });
}

/** Returns the 32 bytes of the seed of a private key. */
export function seedOf(key: KeyObject): Buffer {
  return key.export({ format: 'der', type: 'pkcs8' }).subarray(-keyBytes);
}

/** Returns the 32 bytes of the public key that belongs to a private key. */
export function publicBytesOf(key: KeyObject): Buffer {
  return createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-keyBytes);
}

/**
 * Returns the bytes that are signed: the purpose and all parts, each with its length. The lengths
 * ensure that different lists of parts have different bytes.
 */
export function signedForm(purpose: string, parts: readonly Uint8Array[]): Buffer {
  const all = [Buffer.from(purpose), ...parts];
  return Buffer.concat(
    all.flatMap((part) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(part.byteLength);
      return [length, part];
    }),
  );
}

/** Signs several byte arrays, together with the purpose of the signature. */
export function signParts(key: KeyObject, purpose: string, parts: readonly Uint8Array[]): Buffer {
  return sign(null, signedForm(purpose, parts), key);
}

/** Returns whether the signature was made with this key, for this purpose and these parts. */
export function isSignedBy(
  publicKey: Uint8Array,
  purpose: string,
  parts: readonly Uint8Array[],
  signature: Uint8Array,
): boolean {
  if (publicKey.byteLength !== keyBytes || signature.byteLength !== signatureBytes) return false;
  const x = Buffer.from(publicKey).toString('base64url');
  try {
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
    return verify(null, signedForm(purpose, parts), key, signature);
  } catch {
    return false;
  }
}
