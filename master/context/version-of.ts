import { createHash } from 'node:crypto';

const digits = 12;

/** Returns a short digest of a part of the configuration. Members of a cluster compare it. */
export function versionOf(content: unknown): string {
  return createHash('sha256').update(JSON.stringify(content)).digest('hex').slice(0, digits);
}
