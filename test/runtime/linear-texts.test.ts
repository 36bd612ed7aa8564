/** Functions that read texts without regular expressions, in linear time. */

import test from 'ava';
import { readBatchSize } from '#master/jobs/index.ts';
import { trimEnd } from '#runtime';

test('only the end of a text is trimmed', (t) => {
  t.is(trimEnd('a//b//', '/'), 'a//b');
  t.is(trimEnd('//', '/'), '');
  t.is(trimEnd('a', '/'), 'a');
  t.is(trimEnd('', '/'), '');
});

test('the size of a batch may have percent signs at both ends only', (t) => {
  t.is(readBatchSize('%%25%%'), '25%');
  t.is(readBatchSize('%25'), '25%');
  t.is(readBatchSize('2%5'), undefined);
});
