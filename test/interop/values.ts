import { createHash } from 'node:crypto';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';

/** Returns the length and the digest of a text. */
export function describeText(value: WireValue | undefined): string {
  const text = String(value);
  return `${text.length} characters, ${createHash('sha256').update(text).digest('hex')}`;
}

/**
 * Removes the keyword arguments that a minion adds from the publication. Minions of 3004 return
 * them.
 */
export function withoutPublication(kwargs: WireValue | undefined): WireMap {
  const entries = Object.entries(isWireMap(kwargs) ? kwargs : {});
  return Object.fromEntries(entries.filter(([name]) => !name.startsWith('__pub_')));
}

/**
 * Converts maps of both kinds to lists of entries, so that only differences that Salt can express
 * remain.
 */
export function plain(value: WireValue | undefined): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex');
  if (value instanceof Map) return [...value].map(([key, item]) => [plain(key), plain(item)]);
  if (isWireMap(value)) return Object.entries(value).map(([key, item]) => [key, plain(item)]);
  return value;
}
