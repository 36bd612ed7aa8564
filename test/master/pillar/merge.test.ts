/** Merges of pillar. */

import test from 'ava';
import { mergePillar } from '#salt/render/merge-pillar.ts';
import { Float, type PlainData } from '#template';

const options = { strategy: 'smart', mergeLists: true } as const;

function joined(lower: readonly PlainData[], upper: readonly PlainData[]): unknown {
  const merged = mergePillar(new Map([['l', lower]]), new Map([['l', upper]]), options);
  return merged.get('l');
}

test('joined lists have no value twice that is equal in Python', (t) => {
  const map = new Map<PlainData, PlainData>([
    ['a', 1],
    ['b', [2]],
  ]);
  const turned = new Map<PlainData, PlainData>([
    ['b', [new Float(2)]],
    ['a', true],
  ]);
  const lower = [1, 'x', null, [1, [2]], map, Buffer.from('b')];
  const same = [true, new Float(1), 'x', null, [new Float(1), [2]], turned, Buffer.from('b')];
  t.deepEqual(joined(lower, same), lower);
  const others = ['1', 'None', [1, 2], [], new Map(), '[1,[2]]', Buffer.from('c'), ['1', [2]]];
  t.deepEqual(joined(lower, others), [...lower, ...others]);
});

test('joining lists reads each value a bounded number of times', (t) => {
  let reads = 0;
  const item = (n: number): PlainData =>
    new Proxy([n], {
      get: (target, key, receiver) => {
        reads += 1;
        return Reflect.get(target, key, receiver);
      },
    });
  const list = Array.from({ length: 500 }, (_, n) => item(n));
  t.deepEqual(joined(list, list), list);
  reads = 0;
  joined(list, list);
  t.true(reads < 20 * list.length, `${reads} reads`);
});
