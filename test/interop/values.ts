import { createHash } from 'node:crypto';
import { isWireMap, type WireMap, type WireValue } from '#minion-protocol';

/** Length and digest of a text. */
export function describeText(value: WireValue | undefined): string {
  const text = String(value);
  return `${text.length} characters, ${createHash('sha256').update(text).digest('hex')}`;
}

/** Keywords without those that a minion adds from the publication; 3004 gives them back. */
export function withoutPublication(kwargs: WireValue | undefined): WireMap {
  const entries = Object.entries(isWireMap(kwargs) ? kwargs : {});
  return Object.fromEntries(entries.filter(([name]) => !name.startsWith('__pub_')));
}

/** With maps of both kinds as lists of their entries, so that only what Salt can say is compared. */
export function plain(value: WireValue | undefined): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Uint8Array) return Buffer.from(value).toString('hex');
  if (value instanceof Map) return [...value].map(([key, item]) => [plain(key), plain(item)]);
  if (isWireMap(value)) return Object.entries(value).map(([key, item]) => [key, plain(item)]);
  return value;
}
