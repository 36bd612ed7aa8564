import { createHash } from 'node:crypto';
import type { KeyRules } from '#master/auth/key-store.ts';

/** Rules in their simplest form; those of the wire are minion-protocol's, with its own tests. */
export const plainRules: KeyRules = {
  isValidMinionId: (id) => !['', '.', '..'].includes(id) && !/[/\\\0]/.test(id),
  isNewMinionId: () => true,
  isPublicKey: () => true,
  cleanKeyText: (pem) => pem.trim(),
  fingerprint: (pem) => createHash('sha256').update(pem.trim()).digest('hex'),
};

/** A text in place of a key: the store does not look inside. */
export function keyText(name: string): string {
  return `-----BEGIN PUBLIC KEY-----\n${name.repeat(100)}\n-----END PUBLIC KEY-----`;
}
