import { ConfigError, type OptionOrigin } from './errors.ts';
import { nearestName } from './nearest-name.ts';

/** The refusal of a name that nobody has, with the one that was probably meant. */
export function unknownOption(origin: OptionOrigin, known: readonly string[]): ConfigError {
  const name = origin.key.split(':').at(-1) ?? '';
  const nearest = nearestName(name, known);
  const proposal =
    nearest === undefined ? `known are ${known.join(', ')}` : `did you mean ${nearest}?`;
  return new ConfigError('ERR_OPTION_UNKNOWN', origin, `there is no such option; ${proposal}`);
}

/** The refusal of a value, which it describes by its type alone. */
export function typeError(origin: OptionOrigin, found: unknown, expected: string): ConfigError {
  return new ConfigError(
    'ERR_OPTION_TYPE',
    origin,
    `found ${nameType(found)}, expected ${expected}`,
  );
}

function nameType(value: unknown): string {
  if (value === null) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (value instanceof Map) return 'a map';
  if (value instanceof Date) return 'a date';
  if (typeof value === 'string') return value === '' ? 'empty text' : 'a text';
  if (typeof value === 'number') return Number.isInteger(value) ? 'a whole number' : 'a number';
  if (typeof value === 'boolean') return 'true or false';
  return `a value of type ${typeof value}`;
}
