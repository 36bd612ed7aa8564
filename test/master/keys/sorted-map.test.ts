/** Keys in the order of their ids. */

import test from 'ava';
import { SortedMap } from '#master/auth/sorted-map.ts';
import { compareTexts } from '#runtime';

test('a change of a sorted map does not cause all keys to be sorted again', (t) => {
  let compared = 0;
  const map = new SortedMap<number>((a, b) => {
    compared += 1;
    return compareTexts(a, b);
  });
  // These keys are all different, and are added in a mixed order.
  for (let number = 0; number < 10_000; number++) map.set(`web${(number * 7919) % 10_007}`, number);
  map.keys();
  t.true(compared > 50_000, `${compared}`);
  compared = 0;
  map.set('web5x', 5);
  map.set('web0', undefined);
  t.is(map.keys().length, 10_000);
  t.true(compared < 12_000, `${compared}`);
  t.is(map.keys(), map.keys());
});

test('a sorted map lists each present key once, in order', (t) => {
  const map = new SortedMap<number>(compareTexts);
  for (const key of ['c', 'a', 'b']) map.set(key, 1);
  t.deepEqual(map.keys(), ['a', 'b', 'c']);
  map.set('a', undefined);
  map.set('b', undefined);
  map.set('b', 2);
  map.set('0', 3);
  map.set('d', 4);
  map.set('d', undefined);
  t.deepEqual(map.keys(), ['0', 'b', 'c']);
  t.deepEqual(map.values(), [3, 2, 1]);
  map.set('c', 5);
  t.deepEqual(map.values(), [3, 2, 5]);
  t.is(map.get('a'), undefined);
});
