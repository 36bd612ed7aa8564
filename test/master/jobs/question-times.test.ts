/** Times between the questions whether a job still runs, which users choose. */

import test from 'ava';
import { questionTimes } from '#master/jobs/follow-job.ts';
import { longestTimerMs } from '#runtime';

test('repeated questions about a job are at least a second apart', (t) => {
  const times = questionTimes({ firstMs: 0, quietMs: 0, gatherMs: 0 });
  t.deepEqual(times, { firstMs: 0, quietMs: 1000, gatherMs: 0 });
  const usual = { firstMs: 5000, quietMs: 5000, gatherMs: 10_000 };
  t.deepEqual(questionTimes(usual), usual);
});

test('a very long timeout of a job does not end at once', (t) => {
  const times = questionTimes({ firstMs: 1e15, quietMs: 1e15, gatherMs: 1e15 });
  t.deepEqual(times, {
    ...{ firstMs: longestTimerMs, quietMs: longestTimerMs, gatherMs: longestTimerMs },
  });
});
