/** Functions `salt['random.…']` [salt/modules/mod_random.py]. */

import { randomInt } from 'node:crypto';
import type { PlainData, SaltFunction } from '#template';
import { takes, textOr } from './function-arguments.ts';

const lowercase = 'abcdefghijklmnopqrstuvwxyz';
const digits = '0123456789';
const punctuation = '!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~';
const whitespace = ' \t\n\r\v\f';
const classes: readonly (readonly [name: string, characters: string, isDefault: boolean])[] = [
  ['lowercase', lowercase, true],
  ['uppercase', lowercase.toUpperCase(), true],
  ['digits', digits, true],
  ['punctuation', punctuation, true],
  ['whitespace', whitespace, false],
];
/** Maximum length of a generated text, in characters. */
const maxLength = 65_536;

/**
 * Returns the template functions that generate random values.
 * @param onUse - called before each generated value. The rendered text must then not be cached
 */
export function randomFunctions(onUse: () => void): Readonly<Record<string, SaltFunction>> {
  const names = ['length', 'chars', ...classes.slice(0, 4).map(([name]) => name)];
  return {
    'random.get_str': takes([...names, 'whitespace', 'printable'], (given) => {
      onUse();
      const length = Number(given.length ?? 20);
      if (!Number.isInteger(length) || length > maxLength) {
        throw new TypeError(
          `the argument \`length\` of random.get_str must be an integer up to ${maxLength}`,
        );
      }
      const characters = charactersOf(given);
      if (characters === '')
        throw new TypeError(
          'the arguments exclude all characters; enable `lowercase`, `uppercase`, `digits`, `punctuation` or `whitespace`',
        );
      const chosen = Array.from({ length: Math.max(0, length) }, () => {
        return characters.charAt(randomInt(characters.length));
      });
      return chosen.join('');
    }),
  };
}

function charactersOf(given: Readonly<Record<string, PlainData>>): string {
  const chars = textOr(given.chars, '');
  if (chars !== '' && given.printable !== true) return chars;
  const chosen = classes.filter(([name, , isDefault]) => {
    return given.printable === true || (given[name] ?? isDefault) === true;
  });
  return chosen.map(([, characters]) => characters).join('');
}
