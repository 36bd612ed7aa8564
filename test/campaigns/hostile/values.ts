/**
 * Kinds of hostile values ("families"). Each function returns a value for a field, of about the
 * given size in bytes. The values contain only JSON types, `bigint` and `NaN`.
 */

import type { Random } from '../random.ts';

/** Names of objects of the honest owner. A hostile owner must not reach these objects. */
export interface ForeignNames {
  readonly minion: string;
  readonly project: string;
  readonly handle: string;
  readonly jid: string;
}

/** Properties of the request that contains a value. */
export interface ValueContext {
  readonly foreign: ForeignNames;
  /** Maximum nesting depth that can be encoded in the request. */
  readonly maxDepth: number;
}

/** Returns a value of a family. */
type MakeValue = (size: number, random: Random, context: ValueContext) => unknown;

const filled =
  (piece: string): MakeValue =>
  (size) =>
    piece.repeat(Math.max(1, Math.floor(size / piece.length)));

const oneOf =
  (...values: readonly [unknown, ...unknown[]]): MakeValue =>
  (_size, random) =>
    random.of(values);

const maxEntries = 90_000;

function nested(size: number, wrap: (inner: unknown) => unknown): unknown {
  let value: unknown = 'x';
  for (let depth = size; depth > 0; depth -= 1) value = wrap(value);
  return value;
}

/** Returns lists of names, and texts that may be read as lists: `web1` and a minion. */
export function nameLists(minion: string): readonly [unknown, ...unknown[]] {
  return [
    `web1,${minion}`,
    `${minion},web1`,
    `web1, ${minion}`,
    `web1,,${minion},`,
    `web1,${minion.slice(0, 3)}*`,
    `web*,?${minion.slice(1)}`,
    `web1,[${minion[0]}]${minion.slice(1)}`,
    `web1\n,${minion}`,
    `web1 ${minion}`,
    `web1;${minion}`,
    `web1|${minion}`,
    `web1 or ${minion}`,
    `L@web1,${minion}`,
    `web1,E@${minion}`,
    ['web1', minion],
    [`web1,${minion}`],
    [['web1', minion]],
    { minions: ['web1', minion] },
    { web1: true, [minion]: true },
  ];
}

/** Families by name. */
export const families: Readonly<Record<string, MakeValue>> = {
  brackets: filled('['),
  stars: filled('*a'),
  alternatives: filled('{a,b'),
  'many terms': filled('E@x{1000} or '),
  'grain terms': filled('G@os:* and not '),
  'counted repeats': (size) =>
    `E@${'(?:'.repeat(9)}x${'{1,1000})'.repeat(9)}${'a?'.repeat(size / 4)}`,
  commas: filled('a,'),
  colons: filled('a:'),
  dots: filled('a.'),
  slashes: filled('../'),
  templates: filled('{{'),
  'yaml nesting': filled('[{a: '),
  'yaml aliases': (size) =>
    `a: &a [x,x]\n${Array.from({ length: Math.min(99, size / 20) }, (_, at) => `b${at}: &b${at} [*a,*a]\n`).join('')}`,
  'key value words': filled('a=b '),
  letters: filled('x'),
  'wide map': (size) =>
    Object.fromEntries(
      Array.from({ length: Math.min(maxEntries, size / 10) }, (_, at) => [`k${at}`, at]),
    ),
  'wide list': (size) => Array.from({ length: Math.min(maxEntries, size / 4) }, () => 'a'),
  'long names': (size) => ({ [`a${':b'.repeat(size / 2)}`]: { [`${'.'.repeat(size / 2)}`]: 1 } }),
  'deep map': (size, _random, { maxDepth }) => nested(Math.min(size / 6, maxDepth), (a) => ({ a })),
  'deep list': (size, _random, { maxDepth }) => nested(Math.min(size / 2, maxDepth), (a) => [a]),
  numbers: oneOf(2 ** 53, 2 ** 53 - 1, -(2 ** 53), 1e308, -1, 0, 0.5, 2 ** 31, 2 ** 32, 1e15, -0),
  'large integers': oneOf(2n ** 63n, 2n ** 64n - 1n, -(2n ** 63n)),
  'not numbers': oneOf(Number.NaN, Infinity, 'NaN', 'Infinity', '-1e999', '9'.repeat(400), '0x10'),
  slots: oneOf(
    '__slot__:salt:cmd.run(id)',
    'a __slot__:salt:cmd.run(id)',
    { a: ['__slot__:salt:cmd.run(id)'] },
    { '__slot__:salt:cmd.run(id)': 1 },
    'sdb://saltbridge/x',
    'salt://x',
    '-----BEGIN PGP MESSAGE-----',
    'NACL[x]',
  ),
  foreign: (_size, random, { foreign: { minion, project, handle, jid } }) =>
    random.of([minion, project, handle, jid, [minion], { [minion]: project }, `L@${minion}`]),
  'name lists': (_size, random, { foreign: { minion } }) => random.of(nameLists(minion)),
  letterforms: oneOf(
    'ａtk-legit',
    'I@a:b',
    '\u202eabc',
    'a\u0000b',
    'a\r\nb: c',
    '\ud800',
    'ﬁ',
    'İ',
  ),
  paths: oneOf(
    '../../etc/passwd',
    '/etc/passwd',
    'file:///etc/passwd',
    'C:\\x',
    'http://169.254.169.254/',
  ),
  names: oneOf('__proto__', 'constructor', 'toString', 'hasOwnProperty', {
    constructor: 1,
    toString: 1,
  }),
  types: oneOf(null, true, false, [], {}, '', [[]], [{}], { '': '' }, [null]),
};

/** Returns a value as JSON text. Writes `bigint` as an integer, and `NaN` as `1e999`. */
export function jsonOf(value: unknown): string {
  const text = JSON.stringify(value, (_key, it: unknown) => {
    if (typeof it === 'bigint') return `@raw ${it}@`;
    return typeof it === 'number' && !Number.isFinite(it) ? '@raw 1e999@' : it;
  });
  return text.replaceAll(/"@raw ([^"@]*)@"/g, '$1');
}

/** Returns a value as text, for fields that can only contain text. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : jsonOf(value);
}
