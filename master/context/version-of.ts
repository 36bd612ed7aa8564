import { hash } from 'node:crypto';

const digits = 12;

/** Returns a short digest of a part of the configuration. Members of a cluster compare it. */
export function versionOf(content: unknown): string {
  return hash('sha256', JSON.stringify(content)).slice(0, digits);
}
