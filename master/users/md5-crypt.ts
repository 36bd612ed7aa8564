/**
 * Password hash MD5-crypt, in the forms `$1$` and `$apr1$` (Apache). It is weak, but common in
 * password files.
 */

import { createHash } from 'node:crypto';
import { cryptBase64 } from './crypt-base64.ts';

const md5CryptForm = /^\$(apr1|1)\$([^$]{0,8})/;

/**
 * Returns the MD5-crypt hash of a password as a password-file entry. The result equals `kept` if
 * the password is correct.
 * @param kept - stored entry, which supplies the form and the salt
 */
export function md5Crypt(password: string, kept: string): string {
  const [, kind = '', salt = ''] = md5CryptForm.exec(kept) ?? [];
  const key = Buffer.from(password, 'utf8');
  const saltBytes = Buffer.from(salt, 'utf8');
  const inner = md5(key, saltBytes, key);
  const start: Buffer[] = [key, Buffer.from(`$${kind}$`), saltBytes];
  for (let left = key.length; left > 0; left -= 16)
    start.push(inner.subarray(0, Math.min(16, left)));
  for (let bits = key.length; bits > 0; bits >>>= 1) {
    start.push((bits & 1) === 1 ? Buffer.alloc(1) : key.subarray(0, 1));
  }
  let digest = md5(...start);
  for (let round = 0; round < 1000; round += 1) {
    const isOdd = round % 2 === 1;
    digest = md5(
      isOdd ? key : digest,
      round % 3 === 0 ? noBytes : saltBytes,
      round % 7 === 0 ? noBytes : key,
      isOdd ? digest : key,
    );
  }
  return `$${kind}$${salt}$${encodeMd5(digest)}`;
}

const noBytes = Buffer.alloc(0);

function md5(...parts: readonly Buffer[]): Buffer {
  const hash = createHash('md5');
  for (const part of parts) hash.update(part);
  return hash.digest();
}

function encodeMd5(digest: Buffer): string {
  const at = (index: number): number => digest[index] ?? 0;
  const groups = [0, 1, 2, 3, 4].map((index) =>
    cryptBase64([at(index), at(index + 6), at(index === 4 ? 5 : index + 12)], 4),
  );
  return groups.join('') + cryptBase64([at(11)], 2);
}
