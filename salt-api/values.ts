/** Parsed bodies as values of Salt's: plain, bounded, with no key that means anything to us. */
import type { WireMap, WireValue } from '../minion-protocol/index.ts';
import { SaltApiError } from './errors.ts';

/** Levels of a body [THREATS A-17]. */
const maxDepth = 32;

/** @throws SaltApiError ERR_HTTP_BODY for what is too deep, or has text that is no Unicode */
export function toWireValue(value: unknown, depth = 0): WireValue {
  if (depth > maxDepth) throw new SaltApiError('ERR_HTTP_BODY', 'the body is nested too deeply');
  if (typeof value === 'string') return checkedText(value);
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  if (value instanceof Uint8Array) return value;
  if (Array.isArray(value)) return value.map((item) => toWireValue(item, depth + 1));
  if (typeof value !== 'object') throw new SaltApiError('ERR_HTTP_BODY', 'no value of Salt');
  const map: WireMap = Object.create(null);
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  for (const [key, item] of entries) map[checkedText(String(key))] = toWireValue(item, depth + 1);
  return map;
}

function checkedText(text: string): string {
  if (/\p{Cs}/u.test(text)) throw new SaltApiError('ERR_HTTP_BODY', 'text that is no Unicode');
  return text;
}
