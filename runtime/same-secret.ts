import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/**
 * Compares two secrets. The duration reveals neither their content nor their length [THREATS C-01].
 */
export function isSameSecret(a: string, b: string): boolean {
  const key = randomBytes(32);
  const digest = (text: string): Buffer => createHmac('sha256', key).update(text).digest();
  return timingSafeEqual(digest(a), digest(b));
}
