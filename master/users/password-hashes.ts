/** Passwords as files keep them: digests as Salt compares them, Apache's forms, and crypt(3)'s. */

import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { loadOptionalPackage, WorkerPool, WorkerPoolError } from '#runtime';
import type { BcryptTask } from './bcrypt-worker.ts';

// bcrypt, as `htpasswd -B` writes it; slow by design, so it runs in a thread of its own.

const bcryptForm = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/;

/** Beyond that a core would be held for seconds. */
const maxCost = 14;

/** Whether a password is kept in this form, and can be compared in a reasonable time. */
function isBcrypt(kept: string): boolean {
  const cost = Number(bcryptForm.exec(kept)?.[1]);
  return cost >= 4 && cost <= maxCost;
}

/** @param kept for which {@link isBcrypt} holds */
async function fitsBcrypt(password: string, kept: string): Promise<boolean> {
  const script = new URL('./bcrypt-worker.ts', import.meta.url);
  const pool = new WorkerPool<BcryptTask, boolean>({ script, threads: 1 });
  try {
    return await loadOptionalPackage('bcryptjs', 'a bcrypt password', async () => {
      try {
        return await pool.run({ password, kept });
      } catch (error) {
        throw error instanceof WorkerPoolError ? (error.cause ?? error) : error;
      }
    });
  } finally {
    await pool.close();
  }
}

/** Base 64 as crypt(3) writes it: another alphabet, the lowest bits first. */
const alphabet = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** So many characters of up to three bytes. */
function cryptBase64(bytes: readonly number[], characters: number): string {
  let rest = bytes.reduce((number, byte) => number * 256 + byte, 0);
  let text = '';
  for (let count = 0; count < characters; count += 1) {
    text += alphabet.charAt(rest % 64);
    rest = Math.floor(rest / 64);
  }
  return text;
}

// MD5-crypt, `$1$` and Apache's `$apr1$`: weak, but common in files of users.

const md5CryptForm = /^\$(apr1|1)\$([^$]{0,8})/;

/** @param kept begins with the salt to use. @returns all of it for this password */
function md5Crypt(password: string, kept: string): string {
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

/** Compares secrets in a time that says nothing of them, their length included [THREATS C-01]. */
export function isSameText(a: string, b: string): boolean {
  const key = randomBytes(32);
  const digest = (text: string): Buffer => createHmac('sha256', key).update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}

// SHA-crypt, `$5$` (SHA-256) and `$6$` (SHA-512), as Ulrich Drepper specified them.

const shaCryptForm = /^\$([56])\$(?:rounds=(\d{1,9})\$)?([^$]{0,16})/;

/** More would hold a core for seconds. */
const maxRounds = 500_000;
const roundsATurn = 2000;

/** @param kept begins with the salt to use. @returns all of it for this password */
async function shaCrypt(password: string, kept: string): Promise<string> {
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

/** Three bytes at a time, a third of the digest apart; which comes first rotates. */
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

/** `plaintext`, the name of a digest, or a file of Apache's. */
export type PasswordForm = string;

/** Somebody's password, with what belongs to it in some forms. */
export interface GivenPassword {
  readonly user: string;
  readonly realm: string;
  readonly password: string;
}

/** Whether a password is the one that is kept. In a form that is not read, none is. */
export async function isPassword(
  given: GivenPassword,
  kept: string,
  form: PasswordForm,
): Promise<boolean> {
  if (isDisabled(kept, form) || isUnread(kept, form)) return false;
  if (form === 'htpasswd' && isBcrypt(kept)) return fitsBcrypt(given.password, kept);
  return isSameText(await inForm(given, kept, form), kept);
}

/** Whether no password fits, as where an account was locked. */
export function isDisabled(kept: string, form: PasswordForm): boolean {
  return kept === '' || (form !== 'plaintext' && /^[!*]/.test(kept));
}

/** Whether a password is kept in a form that is not read: DES, bcrypt at too high a cost. */
export function isUnread(kept: string, form: PasswordForm): boolean {
  if (form !== 'htpasswd' || isDisabled(kept, form) || kept.startsWith('{SHA}')) return false;
  if (isBcrypt(kept)) return false;
  return /^(\$(?!apr1\$|1\$|5\$|6\$)|\{)/.test(kept) || /^[\w./]{13}$/.test(kept);
}

/** The one of these that takes longest to compare with; `undefined`: there is none. */
export function costliestPassword(kept: readonly string[]): string | undefined {
  let [costliest] = kept;
  for (const one of kept) {
    if (costliest === undefined || costOf(one) > costOf(costliest)) costliest = one;
  }
  return costliest;
}

/** Rounds of a digest, about: what tells the forms apart is orders of magnitude. */
function costOf(kept: string): number {
  // A round of bcrypt takes as long as a hundred of SHA-512.
  const [, bcryptCost] = /^\$2[abxy]?\$(\d\d)\$/.exec(kept) ?? [];
  if (bcryptCost !== undefined) return 100 * 2 ** Number(bcryptCost);
  const [, rounds = 5000] = /^\$[56]\$(?:rounds=(\d+)\$)?/.exec(kept) ?? [undefined, 0];
  if (Number(rounds) > 0) return Number(rounds);
  return kept.startsWith('$apr1$') || kept.startsWith('$1$') ? 1000 : 1;
}

async function inForm(
  { user, realm, password }: GivenPassword,
  kept: string,
  form: PasswordForm,
): Promise<string> {
  if (form === 'plaintext') return password;
  if (form === 'htdigest') return hex('md5', `${user}:${realm}:${password}`);
  if (form !== 'htpasswd') return hex(form, password);
  if (kept.startsWith('{SHA}')) {
    return `{SHA}${createHash('sha1').update(password).digest('base64')}`;
  }
  if (kept.startsWith('$apr1$') || kept.startsWith('$1$')) return md5Crypt(password, kept);
  if (kept.startsWith('$5$') || kept.startsWith('$6$')) return shaCrypt(password, kept);
  return password;
}

function hex(algorithm: string, text: string): string {
  return createHash(algorithm).update(text).digest('hex');
}
