import { isSettings, type Setting, type Settings } from './settings.ts';

/** A value of a file as plain data. */
export function toPlain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toPlain);
  if (value instanceof Date) return value.toISOString();
  if (isSettings(value)) return fromSettings(value);
  return value;
}

/** The entries of a map, from a file or from a program; `undefined` of anything else. */
export function entriesOf(value: unknown): [name: string, value: unknown][] | undefined {
  const plain = toPlain(value);
  const isMap = typeof plain === 'object' && plain !== null && !Array.isArray(plain);
  return isMap ? Object.entries(plain) : undefined;
}

/** Maps at the top of a file are settings, those in lists plain maps. */
function fromSettings(map: Settings | ReadonlyMap<unknown, unknown>): Record<string, unknown> {
  const plain: Record<string, unknown> = Object.create(null);
  for (const [name, item] of map)
    plain[String(name)] = toPlain(isSetting(item) ? item.value : item);
  return plain;
}

function isSetting(item: unknown): item is Setting {
  return typeof item === 'object' && item !== null && 'origin' in item && 'value' in item;
}
