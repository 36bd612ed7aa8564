/** Values of options as the parser left them: maps at the top are settings, deeper ones plain. */
import { isSettings } from '../config/settings.ts';

/** The entries of a map, wherever it stands; none of anything else. */
export function entriesOf(value: unknown): (readonly [name: string, value: unknown])[] {
  if (isSettings(value) && [...value.values()].every(isSetting)) {
    return [...value].map(([name, setting]) => [name, setting.value]);
  }
  if (!(value instanceof Map)) return [];
  return [...value].map(([name, inner]) => [String(name), inner]);
}

/** The texts of a list, or of one text. */
export function textsOf(value: unknown): string[] {
  return [value].flat().filter((item) => typeof item === 'string');
}

/**
 * The names in one of Salt's lists of modules: `[name, {name: options}]`, a map or one name.
 */
export function moduleNames(value: unknown): string[] {
  return [value]
    .flat()
    .flatMap((item) => (typeof item === 'string' ? [item] : entriesOf(item).map(([name]) => name)));
}

function isSetting(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'origin' in value;
}
