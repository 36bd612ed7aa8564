import type { WireMap, WireValue } from '../../minion-protocol/index.ts';

/** Levels that a caller's value may have [THREATS A-17]. */
// protection: deep-bodies
export const maxPlainDepth = 32;

/**
 * A value of YAML or JSON as one whose maps have text as keys, with no key that means anything to us.
 * @throws SyntaxError for what is too deep, or has text that is no Unicode
 */
export function toPlainValue(value: unknown, depth = 0): WireValue {
  if (depth > maxPlainDepth) throw new SyntaxError(`more than ${maxPlainDepth} levels`);
  if (typeof value === 'string') return checkedText(value);
  if (value === null || typeof value === 'boolean') return value;
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  if (value instanceof Uint8Array) return value;
  if (Array.isArray(value)) return value.map((item) => toPlainValue(item, depth + 1));
  if (typeof value !== 'object') throw new SyntaxError(`a ${typeof value} is no value of Salt's`);
  const map: WireMap = Object.create(null);
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  for (const [key, item] of entries) map[checkedText(String(key))] = toPlainValue(item, depth + 1);
  return map;
}

function checkedText(text: string): string {
  if (/\p{Cs}/u.test(text)) throw new SyntaxError('text that is not Unicode');
  return text;
}
