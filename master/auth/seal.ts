/** Encryption of secrets in the store. */

import { hkdfSync, randomBytes } from 'node:crypto';
import path from 'node:path';
import nacl from 'tweetnacl';
import { makeDirectory, readTextIfPresent, writeFileAtomically } from '#runtime';
import type { Key } from '#store';
import { MasterError } from '../api/index.ts';

/** Prefix of the store rows that contain secrets. Restoring a backup omits these rows. */
export const secretsPrefix: Key = ['secrets'];

/** Encrypts secrets in the store, so that a copy of the store alone does not reveal them. */
export interface Seal {
  seal(plain: Uint8Array): Uint8Array;
  /**
   * Decrypts data.
   * @throws MasterError ERR_SEAL if the data was encrypted with another key, or altered
   */
  open(sealed: Uint8Array): Uint8Array;
  /**
   * Derives a key of 32 bytes from the encryption key of this object. For the same purpose, the
   * result is always the same. It does not reveal the encryption key.
   */
  derive(purpose: string): Uint8Array;
}

/**
 * Creates a seal, which encrypts secrets with a key of 32 bytes. Uses XSalsa20-Poly1305. The
 * encrypted data begin with a random nonce.
 */
export function createSeal(key: Uint8Array): Seal {
  return {
    seal(plain) {
      const nonce = new Uint8Array(randomBytes(nacl.secretbox.nonceLength));
      const box = nacl.secretbox(new Uint8Array(plain), nonce, key);
      return Buffer.concat([nonce, box]);
    },
    open(sealed) {
      const nonce = new Uint8Array(sealed.subarray(0, nacl.secretbox.nonceLength));
      const box = new Uint8Array(sealed.subarray(nacl.secretbox.nonceLength));
      const plain =
        nonce.length === nacl.secretbox.nonceLength ? nacl.secretbox.open(box, nonce, key) : null;
      if (plain === null) {
        throw new MasterError(
          'ERR_SEAL',
          'a sealed record cannot be decrypted with this seal key; restore the key that belongs to the store',
        );
      }
      return plain;
    },
    derive: (purpose) => new Uint8Array(hkdfSync('sha256', key, '', purpose, 32)),
  };
}

/**
 * Opens the seal of a master, which encrypts secrets for the store. The key of the seal is in
 * `<stateDir>/seal.key` (mode 0600, 44 characters of base64), outside the store and its backups.
 * The first start creates the key.
 */
export async function openSeal(stateDir: string): Promise<Seal> {
  const known = await readSealKey(stateDir);
  if (known !== undefined) return createSeal(known);
  const key = makeSealKey();
  await makeDirectory(stateDir, 0o700);
  await writeSealKey(stateDir, key);
  return createSeal(key);
}

export function makeSealKey(): Uint8Array {
  return new Uint8Array(randomBytes(nacl.secretbox.keyLength));
}

/**
 * Reads the seal key. Returns `undefined` if it does not exist.
 * @throws MasterError ERR_SEAL
 */
export async function readSealKey(stateDir: string): Promise<Uint8Array | undefined> {
  const file = sealKeyFile(stateDir);
  const text = await readTextIfPresent(file);
  if (text === undefined) return undefined;
  const key = Buffer.from(text.trim(), 'base64');
  if (key.length === nacl.secretbox.keyLength) return new Uint8Array(key);
  throw new MasterError(
    'ERR_SEAL',
    `${file}: the seal key must be ${nacl.secretbox.keyLength} bytes in base64; restore it from a backup`,
  );
}

export async function writeSealKey(stateDir: string, key: Uint8Array): Promise<void> {
  const text = `${Buffer.from(key).toString('base64')}\n`;
  await writeFileAtomically(sealKeyFile(stateDir), text, 0o600);
}

function sealKeyFile(stateDir: string): string {
  return path.join(stateDir, 'seal.key');
}
