/** Limits the size of values in requests, before functions process them in one step. */

import { isPlainMap } from './commands/command-definition.ts';

/** Size of a JSON value. */
export interface ValueSize {
  /** Number of values. Lists and maps count as values, keys do not. */
  readonly values: number;
  /** Number of characters of texts and keys. Default: unlimited. */
  readonly characters?: number;
}

/** Whether a JSON value exceeds a size. Stops counting when it does. */
export function isLargerThan(value: unknown, maximum: ValueSize): boolean {
  const { characters = Infinity } = maximum;
  const open: unknown[] = [value];
  let values = 1;
  let length = 0;
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (typeof next === 'string') length += next.length;
    const members = membersOf(next);
    values += members.length;
    for (const [key, member] of members) {
      length += key.length;
      open.push(member ?? null);
    }
    if (values > maximum.values || length > characters) return true;
  }
  return false;
}

function membersOf(value: unknown): readonly (readonly [key: string, value: unknown])[] {
  if (Array.isArray(value)) return value.map((item) => ['', item] as const);
  return isPlainMap(value) ? Object.entries(value) : [];
}
