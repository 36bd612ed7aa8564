import { hkdfSync, randomBytes } from 'node:crypto';
import path from 'node:path';
import nacl from 'tweetnacl';
import { makeDirectory } from '../../runtime/index.ts';
import { MasterError } from '../errors.ts';
import { readTextIfPresent, writeFileAtomically } from './private-file.ts';

/** Seals what the store holds of secrets, so that a copy of the store alone gives none away. */
export interface Seal {
  seal(plain: Uint8Array): Uint8Array;
  /** @throws MasterError ERR_SEAL when it was sealed with another key, or altered */
  open(sealed: Uint8Array): Uint8Array;
  /** Another key of 32 bytes, always the same for a purpose; the seal's own is not known by it. */
  derive(purpose: string): Uint8Array;
}

/** A seal with a given key of 32 bytes (XSalsa20-Poly1305, a random nonce in front). */
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
          'a sealed record does not open with this seal key; restore the key that belongs to the store',
        );
      }
      return plain;
    },
    derive: (purpose) => new Uint8Array(hkdfSync('sha256', key, '', purpose, 32)),
  };
}

/**
 * The seal of a master: its key lies in `<stateDir>/seal.key` (0600, 44 characters of base64),
 * outside the store and its backups. Made at the first start.
 */
export async function openSeal(stateDir: string): Promise<Seal> {
  const file = path.join(stateDir, 'seal.key');
  const text = await readTextIfPresent(file);
  if (text !== undefined) {
    const key = Buffer.from(text.trim(), 'base64');
    if (key.length !== nacl.secretbox.keyLength) {
      throw new MasterError(
        'ERR_SEAL',
        `${file}: expected ${nacl.secretbox.keyLength} bytes in base64`,
      );
    }
    return createSeal(new Uint8Array(key));
  }
  const key = randomBytes(nacl.secretbox.keyLength);
  await makeDirectory(stateDir, 0o700);
  await writeFileAtomically(file, `${key.toString('base64')}\n`, 0o600);
  return createSeal(new Uint8Array(key));
}
