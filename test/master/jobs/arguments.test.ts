/** Arguments as they are given, and as they are published. */
import test from 'ava';
import { separateKeywords, toArguments } from '../../../master/jobs/job-arguments.ts';
import type { WireMap, WireValue } from '../../../minion-protocol/index.ts';

const fun = 'test.arg';

test('keywords are given by name or as a last map with a mark, and published as that', (t) => {
  const marked = { __kwarg__: true, a: 1 };
  t.deepEqual(separateKeywords(['x', marked], { b: 2 }), { arg: ['x'], kwarg: { a: 1, b: 2 } });
  t.deepEqual(toArguments({ fun, arg: ['x', marked] }), ['x', marked]);
  t.deepEqual(toArguments({ fun, arg: ['x'], kwarg: { a: 1 } }), ['x', marked]);
  t.deepEqual(toArguments({ fun, arg: ['x', { __kwarg__: true }] }), ['x']);
  t.deepEqual(toArguments({ fun, arg: [{ a: 1 }] }), [{ a: 1 }]);
});

test('a keyword given twice is published once, with the value that is judged', (t) => {
  const arg = [{ __kwarg__: true, a: 1 }];
  t.deepEqual(separateKeywords(arg, { a: 2 }).kwarg, { a: 2 });
  t.deepEqual(toArguments({ fun, arg, kwarg: { a: 2 } }), [{ __kwarg__: true, a: 2 }]);
});

const odd: readonly (readonly [what: string, arg: WireValue[], kwarg?: WireMap])[] = [
  ['a mark of false among keywords', [], { __kwarg__: false, cmd: 'id' }],
  ['a mark of true among keywords', [], { __kwarg__: true, cmd: 'id' }],
  ['a mark of false in the last map', [{ __kwarg__: false, cmd: 'id' }]],
  ['a mark of 1 in the last map', [{ __kwarg__: 1, cmd: 'id' }]],
  ['a marked map that is not the last', [{ __kwarg__: true, cmd: 'id' }, 'x']],
  [
    'two marked maps',
    [
      { __kwarg__: true, a: 1 },
      { __kwarg__: true, a: 2 },
    ],
  ],
  [
    'a mark in a map with other keys than text',
    [
      new Map<WireValue, WireValue>([
        ['__kwarg__', true],
        [1, 2],
      ]),
    ],
  ],
  ["a keyword of Salt's own", [], { __pub_jid: '20240102030405123456' }],
  ["a keyword of Salt's own in the last map", [{ __kwarg__: true, __pub_user: 'root' }]],
  ["a text that is a keyword of Salt's own", ['__kwarg__=False', 'x']],
];

for (const [what, arg, kwarg] of odd) {
  test(`${what} is refused, also among several functions`, (t) => {
    const refusal = { code: 'ERR_ARGS' };
    t.throws(() => toArguments({ fun, arg, ...(kwarg && { kwarg }) }), refusal);
    const list: WireValue[] =
      kwarg === undefined ? arg : [...arg, { ...kwarg, __kwarg__: true, __x: 1 }];
    t.throws(() => toArguments({ fun: [fun, fun], arg: [[], list] }), refusal);
  });
}
