import test from 'ava';
import { formatNames } from '#runtime';

test('a text names the first names, and counts the others', (t) => {
  t.is(formatNames([], 2), '');
  t.is(formatNames(['a', 'b'], 2), 'a, b');
  t.is(formatNames(['a', 'b', 'c'], 2), 'a, b and 1 more');
  t.is(formatNames(['a', 'b'], 2, 12), 'a, b and 10 more');
  t.is(formatNames(['a'], 2, 12), 'a and 11 more');
});
