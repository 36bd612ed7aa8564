import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { KeyRules } from '../../../master/keys/key-store.ts';

interface KeyVectors {
  readonly minion: { readonly pub: string };
  readonly minion2: { readonly pub: string };
}

/** Rules in their simplest form; those of the wire are minion-protocol's, with its own tests. */
export const plainRules: KeyRules = {
  isValidMinionId: (id) => !['', '.', '..'].includes(id) && !/[/\\\0]/.test(id),
  cleanKeyText: (pem) => pem.trim(),
  fingerprint: (pem) => createHash('sha256').update(pem.trim()).digest('hex'),
};
