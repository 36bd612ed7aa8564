/** Values of options as lists. */
import { entriesOf } from '../config/plain-data.ts';

/** The entries of a map; none of anything else. */
export function pairsOf(value: unknown): [name: string, value: unknown][] {
  return entriesOf(value) ?? [];
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
    .flatMap((item) => (typeof item === 'string' ? [item] : pairsOf(item).map(([name]) => name)));
}
