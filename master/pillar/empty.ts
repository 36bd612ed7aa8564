import type { PlainData } from '../../template/index.ts';

/** What counts as nothing in Python. */
export function isEmpty(data: PlainData): boolean {
  if (typeof data === 'object' && data !== null) {
    if (Array.isArray(data)) return data.length === 0;
    return data instanceof Map && data.size === 0;
  }
  return data === null || data === false || data === 0 || data === '';
}
