/** Merges of pillar. */

import test from 'ava';
import type { WireMap, WireValue } from '#minion-protocol';
import { maxSliceSteps, unlimitedSteps, WorkBudget } from '#runtime';
import { openSetting } from '#salt/orchestrate/compile-sls.ts';
import { mergeOverride, mergePillar } from '#salt/render/merge-pillar.ts';
import { fromWire } from '#salt/render/pillar-wire.ts';
import { Float, type PlainData } from '#template';
import { slicesOf } from '../../helpers/slices.ts';

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

function override(pillar: WireMap, words: WireMap): Promise<unknown> {
  return mergeOverride(pillar, words, options, new WorkBudget(unlimitedSteps));
}

test('pillar= is merged below and over the pillar, and all types of values stay', async (t) => {
  const numbered = new Map<WireValue, WireValue>([
    [1, new Float(2)],
    ['b', 2n ** 60n],
  ]);
  const pillar = { l: [[2], [7]], x: 1, own: { numbered, bytes: Buffer.from('b') } };
  const words = { l: [[0], [1], [2]], x: null, own: { '1': 1.5, text: 't' } };
  t.deepEqual(
    fromWire((await override(pillar, words)) as WireMap),
    fromWire({
      l: [[0], [1], [2], [7]],
      x: null,
      own: new Map<WireValue, WireValue>([
        ['1', 1.5],
        ['text', 't'],
        ['numbered', numbered],
        ['bytes', Buffer.from('b')],
      ]),
    }),
  );
  t.is(await override(pillar, {}), pillar);
});

const inSlices = test.macro(async (t, value: WireValue) => {
  const slices = await slicesOf(() => override({ value }, { value }));
  t.true(slices.length >= 5, `${slices.length} slices`);
  t.true(
    slices.every((steps) => steps < 1.1 * maxSliceSteps),
    `${slices}`,
  );
});
const counted = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n));

test.serial(
  'pillar= is merged in slices (lists)',
  inSlices,
  counted(2000, (n) => [n]),
);
test.serial(
  'pillar= is merged in slices (maps)',
  inSlices,
  counted(2000, (n) => ({ [`k${n}`]: n })),
);
test.serial(
  'pillar= is merged in slices (a map)',
  inSlices,
  Object.fromEntries(counted(4000, (n) => [`k${n}`, n])),
);
test.serial(
  'pillar= is merged in slices (long texts)',
  inSlices,
  counted(50, (n) => `${n}`.padEnd(20_000)),
);

test.serial('users take turns when the pillar= of their orchestrations is merged', async (t) => {
  const compiled: string[] = [];
  const files = {
    masterId: 'north_master',
    pillar: { provide: async () => ({ pillar: { tier: 'web' }, proven: {} }) },
  };
  const open = (owner: string): Promise<unknown> => {
    // The rules are read after the merge.
    const rules = (): never => {
      compiled.push(owner);
      throw new Error('merged');
    };
    const request = { saltenv: 'base', pillarenv: undefined, isTrusted: true, test: false };
    const pillar = new Map([['tier', 'core']]);
    return openSetting({ ...files, rules }, { ...request, pillar, asked: {}, owner });
  };
  for (const end of await Promise.allSettled(['ann', 'ann', 'ann', 'bob'].map(open))) {
    t.like(end, { status: 'rejected', reason: { message: 'merged' } });
  }
  t.deepEqual(compiled, ['ann', 'bob', 'ann', 'ann']);
});
