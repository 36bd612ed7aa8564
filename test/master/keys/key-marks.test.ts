/** Warnings about keys in lists. */

import test from 'ava';
import { keyMarks } from '#master';
import { unlimitedSteps, WorkBudget } from '#runtime';

test('the marks of cloned machines name a few of the others, and count all', async (t) => {
  const keys = Array.from({ length: 2000 }, (_, at) => ({ id: `clone${at}`, pem: 'the same key' }));
  const marksOf = await keyMarks(keys, new WorkBudget(unlimitedSteps));
  for (const key of keys) {
    const { sharedWith = [], sharedWithCount } = marksOf(key);
    t.is(sharedWithCount, 1999);
    t.is(new Set(sharedWith).size, 20);
    t.false(sharedWith.includes(key.id));
  }
});

test('a key that is not accepted is compared with all accepted ones', async (t) => {
  const accepted = [
    { id: 'web1', pem: 'a' },
    { id: 'db1', pem: 'b' },
  ];
  const marksOf = await keyMarks(accepted, new WorkBudget(unlimitedSteps));
  t.deepEqual(marksOf({ id: 'WEB1', pem: 'b' }), {
    alike: ['web1'],
    alikeCount: 1,
    sharedWith: ['db1'],
    sharedWithCount: 1,
  });
  t.deepEqual(marksOf({ id: 'web1', pem: 'a' }), {});
});
