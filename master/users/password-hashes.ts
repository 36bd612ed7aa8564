/** Passwords as files keep them: digests as Salt compares them, Apache's forms, and crypt(3)'s. */

import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { loadOptionalPackage, WorkerPool, WorkerPoolError } from '#runtime';
import type { BcryptTask } from './bcrypt-worker.ts';
import { md5Crypt } from './md5-crypt.ts';
import { shaCrypt } from './sha-crypt.ts';

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

/** Compares secrets in a time that says nothing of them, their length included [THREATS C-01]. */
export function isSameText(a: string, b: string): boolean {
  const key = randomBytes(32);
  const digest = (text: string): Buffer => createHmac('sha256', key).update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
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
