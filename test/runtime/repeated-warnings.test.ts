import test from 'ava';
import { RepeatedWarnings } from '#runtime';

test('each kind of warning is logged once a minute, with the number of repetitions', (t) => {
  const lines: unknown[] = [];
  let now = 1_700_000_000_000;
  const log = { warn: (about: object, message: string) => lines.push({ ...about, message }) };
  const warnings = new RepeatedWarnings(log, () => now);
  for (let count = 0; count < 100; count += 1) warnings.warn('a', { reason: 'a' }, 'refused');
  warnings.warn('b', { reason: 'b' }, 'refused');
  now += 60_000;
  warnings.warn('a', { reason: 'a' }, 'refused');
  t.deepEqual(lines, [
    { reason: 'a', times: 1, message: 'refused' },
    { reason: 'b', times: 1, message: 'refused' },
    { reason: 'a', times: 100, message: 'refused' },
  ]);
});
