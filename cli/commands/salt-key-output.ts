/** Salt's outputter for keys [salt output/key.py]. */

import { textOrder } from '#template/python/comparison.ts';
import { type Colors, escapeLines, escapeName } from '../terminal.ts';

/**
 * Name of a group of keys: the name of a key directory in Salt, or `local` for the master's own
 * keys.
 */
export type KeyPlaceName =
  | 'local'
  | 'minions'
  | 'minions_denied'
  | 'minions_pre'
  | 'minions_rejected';

/** Keys by state: a list of ids, or a map from each id to a text such as its fingerprint. */
export type KeysByPlace = ReadonlyMap<
  KeyPlaceName,
  readonly string[] | ReadonlyMap<string, string>
>;

const headings: Readonly<
  Record<KeyPlaceName, { text: string; light: keyof Colors; color: keyof Colors }>
> = {
  local: { text: 'Local Keys:', light: 'lightMagenta', color: 'magenta' },
  minions: { text: 'Accepted Keys:', light: 'lightGreen', color: 'green' },
  minions_denied: { text: 'Denied Keys:', light: 'lightMagenta', color: 'magenta' },
  minions_pre: { text: 'Unaccepted Keys:', light: 'lightRed', color: 'red' },
  minions_rejected: { text: 'Rejected Keys:', light: 'lightBlue', color: 'blue' },
};

/**
 * Formats the keys in Salt's form, below one heading for each key state. The states and the keys
 * are sorted. The result may be empty.
 */
export function formatKeys(keys: KeysByPlace, colors: Colors): string {
  const places = [...keys].sort(([left], [right]) => textOrder(left, right));
  const lines = places.flatMap(([place, content]) => {
    const { text, light, color } = headings[place];
    const entries = content instanceof Map ? [...content] : [...content].map((id) => [id] as const);
    const sorted = entries.sort(([left], [right]) => textOrder(left, right));
    return [
      `${colors[light]}${text}${colors.end}`,
      ...sorted.map(([id, value]) => {
        const shown = value === undefined ? '' : `:  ${escapeLines(value)}`;
        return `${colors[color]}${escapeName(id)}${shown}${colors.end}`;
      }),
    ];
  });
  return lines.join('\n').trimEnd();
}
