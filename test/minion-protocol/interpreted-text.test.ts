/** Finds text that Salt would interpret at any place in a value. */

import test from 'ava';
import { findInterpretedText, type WireValue } from '#minion-protocol';

const slot = '__slot__:salt:cmd.run(id)';

const interpreted: readonly WireValue[] = [
  slot,
  `  ${slot}`,
  `"${slot}"`,
  `a,${slot}`,
  slot.toUpperCase(),
  Buffer.from(slot),
  'sdb://saltbridge/db/password',
  '"SDB://a/b',
  'salt://top.sls',
  ' Salt://top.sls',
  'x\n-----BEGIN PGP MESSAGE-----\nabc\n-----END PGP MESSAGE-----',
  'NACL[abc]',
];

for (const value of interpreted) {
  const shown = JSON.stringify(String(value));
  test(`finds a text that Salt interprets: ${shown} (${typeof value})`, (t) => {
    t.deepEqual(findInterpretedText(value)?.path, []);
    t.deepEqual(findInterpretedText({ a: [1, { b: value }] })?.path, ['a', 1, 'b']);
    t.deepEqual(findInterpretedText(new Map([['a', new Map([['b', value]])]]))?.path, ['a', 'b']);
  });
}

test('finds a key that Salt interprets, without repeating it', (t) => {
  t.deepEqual(findInterpretedText([{ [slot]: 1 }])?.path, [0, '…']);
});

test('accepts text without a special meaning for Salt', (t) => {
  const texts = ['slot', '__slot__', 'https://host/a', 'see salt.example.org', 'x salt://y', ''];
  const values = ['-----BEGIN PGP PUBLIC KEY BLOCK-----', 1, null, true, new Date(0), ...texts];
  for (const value of values) t.is(findInterpretedText(value), undefined, String(value));
});

test('accepts a slot in an argument of a state where Salt does not look for one', (t) => {
  t.deepEqual(findInterpretedText({ env: [{ a: slot }] }, 'argument')?.path, ['env', 0, 'a']);
  t.is(findInterpretedText({ text: ` ${slot}` }, 'argument'), undefined);
  t.is(findInterpretedText({ source: 'salt://a' }, 'argument'), undefined);
});
