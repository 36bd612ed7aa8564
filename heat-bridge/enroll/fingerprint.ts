import { keyFingerprint } from '../../minion-protocol/index.ts';

/** The fingerprint of a key as enrolments hold it: SHA-256, hex pairs joined by `:`. */
export function fingerprintOf(publicKey: string): string {
  return keyFingerprint(publicKey, 'sha256');
}

/** Reads a fingerprint as `salt-key` or `sha256sum` print it. */
export function tryParseFingerprint(text: string): string | undefined {
  const hex = text.replaceAll(':', '').toLowerCase();
  return /^[0-9a-f]{64}$/.test(hex) ? hex.replace(/(..)(?=.)/g, '$1:') : undefined;
}
