/**
 * Seals bytes to the X25519 key of a site. A new key pair for each box agrees on a key (HKDF with
 * SHA-256), and AES-256-GCM encrypts the bytes. Only the site with the private key can open a box.
 */

import {
  createCipheriv,
  createDecipheriv,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
} from 'node:crypto';

/** Size of a public X25519 key, in bytes. */
export const sealKeyBytes = 32;

const tagBytes = 16;
const purpose = 'saltbridge site secrets 1';

/** Nonce of AES-GCM. It is constant, because each box has its own key. */
const nonce: Buffer = Buffer.alloc(12);

/** Generates the private key of a site. */
export function generateSealKey(): KeyObject {
  return generateKeyPairSync('x25519').privateKey;
}

/** Returns the 32 bytes of the public key that belongs to a private key. */
export function sealKeyOf(key: KeyObject): Buffer {
  return createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-sealKeyBytes);
}

/** Seals bytes for the site with this public key. */
export function seal(plain: Uint8Array, siteKey: Uint8Array, site: string): Buffer {
  const own = generateSealKey();
  const ownKey = sealKeyOf(own);
  const key = keyOf(diffieHellman({ privateKey: own, publicKey: toKey(siteKey) }), ownKey, siteKey);
  const cipher = createCipheriv('aes-256-gcm', key, nonce);
  cipher.setAAD(Buffer.from(site));
  const content = Buffer.concat([cipher.update(plain), cipher.final()]);
  return Buffer.concat([ownKey, content, cipher.getAuthTag()]);
}

/**
 * Opens a box.
 * @throws Error if the box is damaged, or sealed to another key or site
 */
export function unseal(box: Uint8Array, siteKey: KeyObject, site: string): Buffer {
  if (box.length < sealKeyBytes + tagBytes)
    throw new TypeError('the encrypted secrets are truncated');
  const ownKey = box.subarray(0, sealKeyBytes);
  const shared = diffieHellman({ privateKey: siteKey, publicKey: toKey(ownKey) });
  const decipher = createDecipheriv(
    'aes-256-gcm',
    keyOf(shared, ownKey, sealKeyOf(siteKey)),
    nonce,
    { authTagLength: tagBytes },
  );
  decipher.setAAD(Buffer.from(site));
  decipher.setAuthTag(box.subarray(-tagBytes));
  const content = box.subarray(sealKeyBytes, -tagBytes);
  return Buffer.concat([decipher.update(content), decipher.final()]);
}

function keyOf(shared: Uint8Array, ownKey: Uint8Array, siteKey: Uint8Array): Uint8Array {
  const salt = Buffer.concat([ownKey, siteKey]);
  return new Uint8Array(hkdfSync('sha256', shared, salt, purpose, 32));
}

function toKey(bytes: Uint8Array): KeyObject {
  const x = Buffer.from(bytes).toString('base64url');
  return createPublicKey({ key: { kty: 'OKP', crv: 'X25519', x }, format: 'jwk' });
}
