/** The question whether silent minions still run a job. */

import test from 'ava';
import type { JobReturn } from '../../../master/api/jobs.ts';
import { findRunning } from '../../../master/jobs/follow-job.ts';
import type { WireValue } from '../../../minion-protocol/index.ts';

const jid = '20240102030405123456';
const never = new AbortController().signal;

interface Round {
  /** Resolves once the question was put. */
  readonly published: Promise<void>;
  /** The minions' answers, as the master tells them. */
  answer(minion: string, value: WireValue): void;
  readonly listeners: number;
  readonly dispatcher: Parameters<typeof findRunning>[0];
}

function startRound(publish: () => Promise<void> = async () => {}): Round {
  const listeners = new Set<(result: JobReturn) => void>();
  let notePublished = (): void => {};
  const published = new Promise<void>((resolve) => {
    notePublished = resolve;
  });
  return {
    published,
    answer: (minion, value) => {
      const rest = { fun: 'saltutil.find_job', retcode: 0, success: true, receivedAt: 0 };
      for (const listener of listeners) listener({ minion, return: value, ...rest });
    },
    get listeners() {
      return listeners.size;
    },
    dispatcher: {
      publishUnkept: async (_minions, _fun, _arg, onReturn) => {
        await publish();
        listeners.add(onReturn);
        notePublished();
        return () => listeners.delete(onReturn);
      },
    },
  };
}

test('those who answer with a job run it; the round ends when all do', async (t) => {
  const round = startRound();
  const asked = findRunning(round.dispatcher, jid, ['web1', 'web2'], 600_000, never);
  await round.published;
  round.answer('web1', { jid });
  round.answer('web2', { jid });
  t.deepEqual(await asked, new Set(['web1', 'web2']));
});

test('who runs no such job has all of the round to return, and does not run it', async (t) => {
  const round = startRound();
  const end = new AbortController();
  let isOver = false;
  const asked = findRunning(round.dispatcher, jid, ['web1', 'web2'], 600_000, end.signal).finally(
    () => {
      isOver = true;
    },
  );
  await round.published;
  round.answer('web1', { jid });
  round.answer('web2', {});
  await new Promise(setImmediate);
  t.false(isOver);
  end.abort();
  t.deepEqual(await asked, new Set(['web1']));
});

test('a round that is over is listened to by nobody, however it ended', async (t) => {
  const late = startRound();
  await findRunning(late.dispatcher, jid, ['web1'], 1, never);
  t.is(late.listeners, 0);
  const aborted = startRound();
  const end = new AbortController();
  const asked = findRunning(aborted.dispatcher, jid, ['web1'], 600_000, end.signal);
  end.abort();
  await asked;
  t.is(aborted.listeners, 0);
  const failed = startRound(() => Promise.reject(new Error('not published')));
  await t.throwsAsync(findRunning(failed.dispatcher, jid, ['web1'], 600_000, never));
  t.is(failed.listeners, 0);
});
