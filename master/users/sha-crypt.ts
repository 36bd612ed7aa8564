/**
 * Password hash SHA-crypt, in the forms `$5$` (SHA-256) and `$6$` (SHA-512), as specified by Ulrich
 * Drepper.
 */

import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { cryptBase64 } from './crypt-base64.ts';

const shaCryptForm = /^\$([56])\$(?:rounds=(\d{1,9})\$)?([^$]{0,16})/;

/**
 * Maximum number of rounds. With more rounds, a comparison would occupy a processor core for
 * seconds.
 */
const maxRounds = 500_000;
const roundsATurn = 2000;

/**
 * Returns the SHA-crypt hash of a password as a password-file entry. The result equals `kept` if
 * the password is correct.
 * @param kept - stored entry, which supplies the form, the number of rounds and the salt
 */
export async function shaCrypt(password: string, kept: string): Promise<string> {
  const [, kind = '', given, salt = ''] = shaCryptForm.exec(kept) ?? [];
  const algorithm = kind === '5' ? 'sha256' : 'sha512';
  const size = kind === '5' ? 32 : 64;
  const rounds = Math.min(maxRounds, Math.max(1000, Number(given ?? 5000)));
  const key = Buffer.from(password, 'utf8');
  const saltBytes = Buffer.from(salt, 'utf8');
  const hash = (...parts: readonly Buffer[]): Buffer => {
    const state = createHash(algorithm);
    for (const part of parts) state.update(part);
    return state.digest();
  };
  const inner = hash(key, saltBytes, key);
  const start = [key, saltBytes, repeated(inner, key.length)];
  for (let bits = key.length; bits > 0; bits >>>= 1) start.push((bits & 1) === 1 ? inner : key);
  let digest = hash(...start);
  const p = repeated(hash(...Array<Buffer>(key.length).fill(key)), key.length);
  const times = 16 + (digest[0] ?? 0);
  const s = repeated(hash(...Array<Buffer>(times).fill(saltBytes)), saltBytes.length);
  for (let round = 0; round < rounds; round += 1) {
    const isOdd = round % 2 === 1;
    digest = hash(
      isOdd ? p : digest,
      round % 3 === 0 ? noShaBytes : s,
      round % 7 === 0 ? noShaBytes : p,
      isOdd ? digest : p,
    );
    if (round % roundsATurn === roundsATurn - 1) await nextTurn();
  }
  const prefix = given === undefined ? '' : `rounds=${rounds}$`;
  return `$${kind}$${prefix}${salt}$${encodeSha(digest, size)}`;
}

const noShaBytes = Buffer.alloc(0);

function repeated(bytes: Buffer, length: number): Buffer {
  return Buffer.alloc(length, bytes);
}

/**
 * Encodes the digest in groups of three bytes. Each group has one byte from each third of the
 * digest, and the order of the thirds rotates.
 */
function encodeSha(digest: Buffer, size: number): string {
  const third = Math.floor(size / 3);
  const at = (index: number): number => digest[index] ?? 0;
  let text = '';
  for (let index = 0; index < third; index += 1) {
    const turn = size === 64 ? index % 3 : (3 - (index % 3)) % 3;
    const places = [0, 1, 2].map((part) => ((part + turn) % 3) * third + index);
    text += cryptBase64(places.map(at), 4);
  }
  return text + (size === 64 ? cryptBase64([at(63)], 2) : cryptBase64([at(31), at(30)], 3));
}
