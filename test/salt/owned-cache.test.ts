/** A cache whose size is limited in total and for each owner. */

import test from 'ava';
import { OwnedCache } from '#salt/owned-cache.ts';
import { testLimit } from '../helpers/limits.ts';

function open(): { readonly cache: OwnedCache<string>; readonly gone: string[] } {
  const gone: string[] = [];
  const sizeOf = (value: string): number => value.length;
  const dispose = (value: string): void => void gone.push(value);
  const limit = testLimit({ perOwner: 4, total: 8 });
  return { cache: new OwnedCache<string>(limit, { sizeOf, dispose }), gone };
}

test('an owner at its limit evicts its own least recently used entry', (t) => {
  const { cache, gone } = open();
  cache.set('a', 'a1', 'aa');
  cache.set('b', 'b1', 'bb');
  cache.set('a', 'a2', 'AA');
  t.is(cache.get('a1'), 'aa');
  cache.set('a', 'a3', 'x');
  t.deepEqual(gone, ['AA']);
  t.deepEqual([...cache.rkeys()].sort(), ['a1', 'a3', 'b1']);
});

test('at the total limit, the least recently used entry of all is evicted', (t) => {
  const { cache, gone } = open();
  for (const owner of ['a', 'b', 'c']) cache.set(owner, owner, owner.repeat(3));
  t.deepEqual(gone, ['aaa']);
  cache.set('a', 'a', 'AAAA');
  t.deepEqual(gone, ['aaa', 'bbb']);
});

test('a replaced entry belongs to its new owner, and a too large entry is not added', (t) => {
  const { cache, gone } = open();
  cache.set('a', 'k', 'one');
  cache.set('b', 'k', 'two');
  cache.set('a', 'a', 'aaaa');
  t.is(cache.get('k'), 'two');
  cache.delete('k');
  cache.set('b', 'b', 'bbbb');
  cache.set('b', 'large', 'x'.repeat(5));
  t.is(cache.get('large'), undefined);
  t.is(cache.get('b'), 'bbbb');
  t.deepEqual(gone, ['one', 'two']);
});

test('the cache reports whether it holds an added entry', (t) => {
  const { cache, gone } = open();
  t.true(cache.set('a', 'k', 'aaaa'));
  t.false(cache.set('a', 'k', 'x'.repeat(5)));
  t.is(cache.get('k'), undefined);
  t.deepEqual(gone, ['aaaa']);
  const unlimited = new OwnedCache<string>(testLimit({ total: 8 }), {
    sizeOf: ({ length }) => length,
  });
  t.false(unlimited.set('a', 'k', 'x'.repeat(9)));
  t.true(unlimited.set('a', 'k', 'x'.repeat(8)));
});
