/**
 * Compares the options of two processes without revealing them. The process that joins sends a
 * digest of each option, with a random salt.
 */

import { createHmac } from 'node:crypto';
import { type MasterConfig, perProcessOptions } from '#config';

/**
 * Digests by option name. The name of an option in a group contains the group, for example
 * `limits.burst`.
 */
export type OptionDigests = Readonly<Record<string, string>>;

/** Names of options that contain other options. */
const groups: ReadonlySet<string> = new Set(['acl', 'audit', 'eauth', 'limits']);

/**
 * Returns the digest of each option.
 * @param salt - any text, the same for both processes
 */
export function digestOptions(config: MasterConfig, salt: string): OptionDigests {
  const digests: Record<string, string> = {};
  for (const [name, value] of Object.entries(config)) {
    if (perProcessOptions.has(name)) continue;
    if (!groups.has(name) || typeof value !== 'object' || value === null) {
      digests[name] = digestOf(value, salt);
      continue;
    }
    for (const [part, partValue] of Object.entries(value)) {
      digests[`${name}.${part}`] = digestOf(partValue, salt);
    }
  }
  return digests;
}

/** Returns the names of the options that differ, sorted. */
export function differingOptions(a: OptionDigests, b: OptionDigests): readonly string[] {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].filter((name) => a[name] !== b[name]).sort();
}

function digestOf(value: unknown, salt: string): string {
  return createHmac('sha256', salt).update(canonicalText(value)).digest('hex');
}

/**
 * Returns a text that is equal for equal values, regardless of the order of keys. Functions are
 * ignored.
 */
function canonicalText(value: unknown): string {
  if (value instanceof Map) return `map${canonicalText([...value])}`;
  if (value instanceof Set) return `set${canonicalText([...value])}`;
  if (value instanceof RegExp || typeof value === 'bigint') return String(value);
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex');
  if (Array.isArray(value)) return `[${value.map(canonicalText).join()}]`;
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value)
      .filter(([, member]) => member !== undefined && typeof member !== 'function')
      .map(([name, member]) => `${JSON.stringify(name)}:${canonicalText(member)}`);
    return `{${members.sort().join()}}`;
  }
  return JSON.stringify(value) ?? 'undefined';
}
