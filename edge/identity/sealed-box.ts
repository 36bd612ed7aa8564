/**
 * Encrypts bytes for the owner of an X25519 key, who alone can decrypt them. The encrypted text is
 * called a box. Each box has a new key pair. The key agreement (X25519, then HKDF with SHA-256)
 * gives the key with which AES-256-GCM encrypts the bytes.
 */

import {
  createCipheriv,
  createDecipheriv,
  createPrivateKey,
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
const derivation = 'saltbridge seal key 1';

/** First bytes of an X25519 key in PKCS #8 [RFC 8410]. The 32 bytes of the key follow them. */
const keyHead = Buffer.from('302e020100300506032b656e04220420', 'hex');

/** Nonce of AES-GCM. It is constant, because each box has its own key. */
const nonce: Buffer = Buffer.alloc(12);

/** Generates a private X25519 key. */
export function generateSealKey(): KeyObject {
  return generateKeyPairSync('x25519').privateKey;
}

/**
 * Derives a private X25519 key from a private Ed25519 key. The same Ed25519 key always gives the
 * same result.
 */
export function deriveSealKey(signingKey: KeyObject): KeyObject {
  const seed = signingKey.export({ format: 'der', type: 'pkcs8' }).subarray(-sealKeyBytes);
  const derived = hkdfSync('sha256', seed, Buffer.alloc(0), derivation, sealKeyBytes);
  const key = Buffer.concat([keyHead, Buffer.from(derived)]);
  return createPrivateKey({ key, format: 'der', type: 'pkcs8' });
}

/** Returns the 32 bytes of the public key that belongs to a private X25519 key. */
export function sealKeyOf(key: KeyObject): Buffer {
  return createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(-sealKeyBytes);
}

/**
 * Encrypts bytes so that only the owner of a public key can decrypt them.
 * @param site - name of the site that sends or receives the encrypted bytes
 */
export function seal(plain: Uint8Array, ownerKey: Uint8Array, site: string): Buffer {
  const own = generateSealKey();
  const ownKey = sealKeyOf(own);
  const key = keyOf(
    diffieHellman({ privateKey: own, publicKey: toKey(ownerKey) }),
    ownKey,
    ownerKey,
  );
  const cipher = createCipheriv('aes-256-gcm', key, nonce);
  cipher.setAAD(Buffer.from(site));
  const content = Buffer.concat([cipher.update(plain), cipher.final()]);
  return Buffer.concat([ownKey, content, cipher.getAuthTag()]);
}

/**
 * Decrypts a box that {@link seal} returned.
 * @throws Error if the box is damaged, or was made for another key or site
 */
export function unseal(box: Uint8Array, ownerKey: KeyObject, site: string): Buffer {
  if (box.length < sealKeyBytes + tagBytes) throw new TypeError('the sealed box is truncated');
  const ownKey = box.subarray(0, sealKeyBytes);
  const shared = diffieHellman({ privateKey: ownerKey, publicKey: toKey(ownKey) });
  const decipher = createDecipheriv(
    'aes-256-gcm',
    keyOf(shared, ownKey, sealKeyOf(ownerKey)),
    nonce,
    { authTagLength: tagBytes },
  );
  decipher.setAAD(Buffer.from(site));
  decipher.setAuthTag(box.subarray(-tagBytes));
  const content = box.subarray(sealKeyBytes, -tagBytes);
  return Buffer.concat([decipher.update(content), decipher.final()]);
}

function keyOf(shared: Uint8Array, ownKey: Uint8Array, ownerKey: Uint8Array): Uint8Array {
  const salt = Buffer.concat([ownKey, ownerKey]);
  return new Uint8Array(hkdfSync('sha256', shared, salt, purpose, 32));
}

function toKey(bytes: Uint8Array): KeyObject {
  const x = Buffer.from(bytes).toString('base64url');
  return createPublicKey({ key: { kty: 'OKP', crv: 'X25519', x }, format: 'jwk' });
}
