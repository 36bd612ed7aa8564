import test from 'ava';
import fc from 'fast-check';
import { createJidSource, isJid, jidTime } from '../../minion-protocol/publication.ts';
import { cases, text, vectorFile } from '../helpers/vectors.ts';

const vectors = vectorFile('jid');

for (const vector of cases(vectors, 'is_jid')) {
  test(`${vector.value} is ${vector.result ? 'a jid' : 'no jid'}`, (t) => {
    t.is(isJid(vector.value), vector.result === true);
  });
}

test('a jid has 20 digits, and nothing or an underscore and more behind them', (t) => {
  for (const wrong of [
    '20240102030405678901_',
    '202401020304056789012',
    '20240102030405678901\n',
    20,
  ]) {
    t.false(isJid(wrong));
  }
});

for (const vector of cases(vectors, 'jid_to_time')) {
  test(`the time of ${vector.jid} is ${vector.text || 'unknown'}`, (t) => {
    const expected = vector.text === '' ? undefined : '2024-01-02T03:04:05.678Z';
    t.is(jidTime(text(vector.jid))?.toISOString(), expected);
  });
}

test('a jid that spells no time has none', (t) => {
  for (const wrong of [
    'req',
    '20240230030405678901',
    '20241302030405678901',
    '99999999999999999999',
  ]) {
    t.is(jidTime(wrong), undefined);
  }
});

test('a jid is the time in UTC, to the microsecond', (t) => {
  const next = createJidSource(() => new Date('2024-01-02T03:04:05.678Z'));
  t.is(next(), '20240102030405678000');
  t.is(next(), '20240102030405678001');
});

test('no jid is given twice, however the clock goes', (t) => {
  const times = fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 50 });
  fc.assert(
    fc.property(times, (milliseconds) => {
      let index = 0;
      const next = createJidSource(() => new Date(milliseconds[index++] ?? 0));
      const jids = milliseconds.map(() => next());
      const rising = jids.every((jid, at) => at === 0 || jid > (jids[at - 1] ?? ''));
      return rising && jids.every(isJid);
    }),
  );
  t.pass();
});

test('more jids than microseconds in a millisecond go on in the next', (t) => {
  const next = createJidSource(() => new Date('2024-12-31T23:59:59.999Z'));
  const jids = Array.from({ length: 1001 }, next);
  t.is(jids.at(-1), '20250101000000000000');
});

test('a suffix follows an underscore', (t) => {
  const next = createJidSource(() => new Date(0), '4711');
  t.is(next(), '19700101000000000001_4711');
});
