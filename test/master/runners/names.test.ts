/** Lists of names in arguments of runners and wheel functions. */

import test from 'ava';
import { names } from '#salt/functions/parameters.ts';

test('names are read from a list or from text with commas', (t) => {
  t.deepEqual(names.parse('a, b'), ['a', 'b']);
  t.deepEqual(names.parse(['a', 'b']), ['a', 'b']);
  t.is(names.parse(['a', 1]), undefined);
});

test('more than 10,000 names are refused, and not read', (t) => {
  t.is(names.parse(Array.from({ length: 10_000 }, () => 'a').join(','))?.length, 10_000);
  t.is(names.parse('a,'.repeat(500_000)), undefined);
  t.is(names.parse(Array.from({ length: 10_001 }, () => 'a')), undefined);
});
