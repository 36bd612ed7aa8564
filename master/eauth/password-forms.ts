/** Passwords as files keep them: digests as Salt compares them, Apache's forms, and crypt(3)'s. */
import { createHash } from 'node:crypto';
import { fitsBcrypt, isBcrypt } from './bcrypt.ts';
import { md5Crypt } from './md5-crypt.ts';
import { isSameText } from './same-text.ts';
import { shaCrypt } from './sha-crypt.ts';

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
