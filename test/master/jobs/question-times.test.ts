/** Times that users choose: between questions whether a job still runs, and pauses of batches. */

import test from 'ava';
import type { JobUpdate } from '#master';
import { runBatch } from '#master/jobs/batch.ts';
import { questionTimes } from '#master/jobs/follow-job.ts';
import { longestTimerMs } from '#runtime';
import { collect } from '../../helpers/fleet.ts';

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

test('a very long pause of a batch does not end at once', async (t) => {
  async function* run(): AsyncGenerator<JobUpdate> {
    const result = { minion: 'm1', fun: 'test.ping', return: true, retcode: 0, success: true };
    yield { type: 'return', jid: '20240102030405123456', ...result, receivedAt: 0 };
  }
  const pauses: number[] = [];
  const start = (milliseconds: number): (() => void) => {
    pauses.push(milliseconds);
    return () => {};
  };
  const request = { tgt: 'm1', fun: 'test.ping', size: 1, waitSeconds: 1e12 };
  await collect(runBatch(run, request, undefined, start));
  t.deepEqual(pauses, [longestTimerMs]);
});
