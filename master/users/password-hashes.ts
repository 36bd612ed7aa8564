/**
 * Compares passwords with the entries of password files. Supported are Salt's digests and the forms
 * of Apache and crypt(3).
 */

import { createHash, hash } from 'node:crypto';
import { isSameSecret, loadOptionalPackage, WorkerPool, WorkerPoolError } from '#runtime';
import type { BcryptTask } from './bcrypt-worker.ts';
import { userLimits } from './limits.ts';
import { md5Crypt } from './md5-crypt.ts';
import { shaCrypt } from './sha-crypt.ts';

// bcrypt entries, which `htpasswd -B` writes, are slow to compare by design. So a worker thread
// compares them.

const bcryptForm = /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/;

/**
 * Maximum cost of a bcrypt entry. With a higher cost, a comparison would occupy a processor core
 * for seconds.
 */
const maxCost = 14;

/** Whether an entry uses bcrypt with a cost that is at most {@link maxCost}. */
function isBcrypt(kept: string): boolean {
  const cost = Number(bcryptForm.exec(kept)?.[1]);
  return cost >= 4 && cost <= maxCost;
}

/**
 * Compares a password with a bcrypt entry.
 * @param kept - stored entry. {@link isBcrypt} must return true for it
 */
async function fitsBcrypt(password: string, kept: string): Promise<boolean> {
  const script = new URL('./bcrypt-worker.ts', import.meta.url);
  const pool = new WorkerPool<BcryptTask, boolean>(userLimits.bcryptThreads, {
    script,
    threads: 1,
  });
  try {
    return await loadOptionalPackage('bcryptjs', 'a bcrypt password', async () => {
      try {
        return await pool.run({ password, kept }, 'log-in');
      } catch (error) {
        throw error instanceof WorkerPoolError ? (error.cause ?? error) : error;
      }
    });
  } finally {
    await pool.close();
  }
}

/**
 * Form of a stored password: `plaintext`, `htpasswd`, `htdigest`, or the name of a digest such as
 * `sha256`.
 */
export type PasswordForm = string;

/**
 * Password that a user sent, with the user name and realm, which some forms include in the digest.
 */
export interface GivenPassword {
  readonly user: string;
  readonly realm: string;
  readonly password: string;
}

/**
 * Whether a password matches the stored entry. An entry in an unsupported form matches no password.
 */
export async function isPassword(
  given: GivenPassword,
  kept: string,
  form: PasswordForm,
): Promise<boolean> {
  if (isDisabled(kept, form) || isUnread(kept, form)) return false;
  if (form === 'htpasswd' && isBcrypt(kept)) return fitsBcrypt(given.password, kept);
  return isSameSecret(await inForm(given, kept, form), kept);
}

/**
 * Whether an entry is disabled, for example because the account is locked. A disabled entry matches
 * no password.
 */
export function isDisabled(kept: string, form: PasswordForm): boolean {
  return kept === '' || (form !== 'plaintext' && /^[!*]/.test(kept));
}

/**
 * Whether an htpasswd entry has a form that the master does not support, for example DES, or bcrypt
 * with a cost above {@link maxCost}.
 */
export function isUnread(kept: string, form: PasswordForm): boolean {
  if (form !== 'htpasswd' || isDisabled(kept, form) || kept.startsWith('{SHA}')) return false;
  if (isBcrypt(kept)) return false;
  return /^(\$(?!apr1\$|1\$|5\$|6\$)|\{)/.test(kept) || /^[\w./]{13}$/.test(kept);
}

/**
 * Returns the password entry whose comparison takes the longest. Returns `undefined` if there are
 * no entries.
 */
export function costliestPassword(kept: readonly string[]): string | undefined {
  let [costliest] = kept;
  for (const one of kept) {
    if (costliest === undefined || costOf(one) > costOf(costliest)) costliest = one;
  }
  return costliest;
}

/**
 * Returns the approximate cost of comparing a password with a stored hash, as a number of digest
 * computations. The costs of the hash formats differ by orders of magnitude.
 */
function costOf(kept: string): number {
  // A round of bcrypt takes about as long as a hundred rounds of SHA-512.
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
    return `{SHA}${hash('sha1', password, 'base64')}`;
  }
  if (kept.startsWith('$apr1$') || kept.startsWith('$1$')) return md5Crypt(password, kept);
  if (kept.startsWith('$5$') || kept.startsWith('$6$')) return shaCrypt(password, kept);
  return password;
}

function hex(algorithm: string, text: string): string {
  return createHash(algorithm).update(text).digest('hex');
}
