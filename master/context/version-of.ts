import { createHash } from 'node:crypto';

const digits = 12;

/** A short digest of what is the same at members that do the same. */
export function versionOf(content: unknown): string {
  return createHash('sha256').update(JSON.stringify(content)).digest('hex').slice(0, digits);
}
