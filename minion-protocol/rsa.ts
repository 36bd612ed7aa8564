/**
 * RSA operations by Salt's algorithm names [WIRE 3.2; salt/crypt.py]. All functions are synchronous
 * and slow (a private operation takes almost a millisecond), so the master runs them in worker
 * threads.
 */

import {
  constants,
  sign as cryptoSign,
  verify as cryptoVerify,
  type KeyObject,
  privateDecrypt,
  publicEncrypt,
} from 'node:crypto';
import { ProtocolError } from './errors.ts';

/**
 * Algorithm for encrypting keys and tokens: RSA-OAEP without a label, with the named hash for OAEP
 * and MGF1.
 */
export type EncryptionAlgorithm = 'OAEP-SHA1' | 'OAEP-SHA224';

/** Algorithm for signatures of replies and publications: RSASSA-PKCS1-v1_5. */
export type SigningAlgorithm = 'PKCS1v15-SHA1' | 'PKCS1v15-SHA224';

/** Encryption algorithm if a request names none. */
export const defaultEncryptionAlgorithm: EncryptionAlgorithm = 'OAEP-SHA1';
/** Signing algorithm if a request names none. */
export const defaultSigningAlgorithm: SigningAlgorithm = 'PKCS1v15-SHA1';

export function isEncryptionAlgorithm(name: unknown): name is EncryptionAlgorithm {
  return name === 'OAEP-SHA1' || name === 'OAEP-SHA224';
}

export function isSigningAlgorithm(name: unknown): name is SigningAlgorithm {
  return name === 'PKCS1v15-SHA1' || name === 'PKCS1v15-SHA224';
}

function oaep(key: KeyObject, algorithm: EncryptionAlgorithm) {
  const oaepHash = algorithm === 'OAEP-SHA1' ? 'sha1' : 'sha224';
  return { key, oaepHash, padding: constants.RSA_PKCS1_OAEP_PADDING };
}

function signatureHash(algorithm: SigningAlgorithm): string {
  return algorithm === 'PKCS1v15-SHA1' ? 'sha1' : 'sha224';
}

/**
 * Encrypts a message. With a key of 2048 bits, the maximum size is 214 bytes for `OAEP-SHA1` and
 * 198 bytes for `OAEP-SHA224`.
 */
export function rsaEncrypt(
  publicKey: KeyObject,
  bytes: Uint8Array,
  algorithm: EncryptionAlgorithm,
): Buffer {
  return publicEncrypt(oaep(publicKey, algorithm), bytes);
}

/**
 * Decrypts a message.
 * @throws ProtocolError ERR_DECRYPT
 */
export function rsaDecrypt(
  privateKey: KeyObject,
  bytes: Uint8Array,
  algorithm: EncryptionAlgorithm,
): Buffer {
  try {
    return privateDecrypt(oaep(privateKey, algorithm), bytes);
  } catch (cause) {
    throw new ProtocolError(
      'ERR_DECRYPT',
      `RSA decryption failed (${bytes.length} bytes): they were encrypted for another key or with another algorithm`,
      {
        cause,
      },
    );
  }
}

export function rsaSign(
  privateKey: KeyObject,
  bytes: Uint8Array,
  algorithm: SigningAlgorithm,
): Buffer {
  return cryptoSign(signatureHash(algorithm), bytes, privateKey);
}

/** Whether `signature` is a valid signature of `bytes` by this key. Never throws. */
export function rsaVerify(
  publicKey: KeyObject,
  bytes: Uint8Array,
  signature: Uint8Array,
  algorithm: SigningAlgorithm,
): boolean {
  return cryptoVerify(signatureHash(algorithm), bytes, publicKey, signature);
}
