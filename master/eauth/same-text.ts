import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** Compares secrets in a time that says nothing of them, their length included [THREATS C-01]. */
export function isSameText(a: string, b: string): boolean {
  const key = randomBytes(32);
  const digest = (text: string): Buffer => createHmac('sha256', key).update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
