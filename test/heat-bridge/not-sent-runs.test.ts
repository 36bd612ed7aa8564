/**
 * Resumes runs of a process that ended before it had sent their jobs, and whose returns may not be
 * stored completely.
 */
import test from 'ava';
import { Catalog } from '#heat-bridge';
import { commandResultOf, executeCommandRun } from '#heat-bridge/commands/command-execution.ts';
import { CommandRun } from '#heat-bridge/commands/command-run.ts';
import type { Delivery, JobUpdate, RunRequest } from '#master';

const jid = '20261123000000000001';

const catalog = new Catalog([
  { name: 'site.go', description: 'x', function: 'site.go', reviewed: 'made for this test' },
]);
const never = new AbortController().signal;
const execution = {
  command: catalog.get('site.go'),
  call: { fun: 'site.go', kwarg: {} },
  user: 'u',
  by: undefined,
  mayRepeat: () => true,
  secondsLeft: () => 60,
  deadline: never,
  ended: never,
};

async function* stream(...updates: readonly JobUpdate[]): AsyncGenerator<JobUpdate, void, void> {
  yield* updates;
}

function returned(minion: string, retcode = 0): JobUpdate {
  const result = { fun: 'site.go', return: true, retcode, success: true, receivedAt: 0 };
  return { type: 'return', jid, minion, ...result };
}

test('a resumed run sends its job to minions that never received it', async (t) => {
  const run = new CommandRun({ id: jid, command: 'site.go', minions: ['a', 'b'], owner: 'o' });
  const published: RunRequest[] = [];
  const jobs = {
    publish: () => t.fail('nothing is to be ended') as never,
    run: (request: RunRequest) => {
      published.push(request);
      return stream(returned('b'));
    },
  };
  const outcome = await executeCommandRun(jobs, run, {
    ...execution,
    resume: () =>
      stream(
        { type: 'published', jid, minions: ['a', 'b'], missing: [], skipped: 0, notSent: ['b'] },
        returned('a'),
        {
          ...{ type: 'finished', jid, answered: ['a'], silent: ['b'], reconnecting: [] },
          deliveries: [
            { minion: 'a', state: 'answered' },
            { minion: 'b', state: 'silent', reason: 'not-sent' },
          ],
        },
      ),
  });
  t.like(outcome, { status: 'succeeded', results: [{ minion: 'a' }, { minion: 'b' }] });
  t.like(published, [{ fun: 'site.go', tgt: ['b'], tgtType: 'list' }]);
  t.is(published.length, 1);
  t.is(published[0]?.jid, undefined);
});

/** Runs a command that may be repeated once, on a minion that fails and on a silent one. */
async function repeat(given: {
  readonly lost?: Set<string>;
  readonly mayRepeat?: (minions: readonly string[]) => boolean;
}) {
  const { lost = new Set<string>(), mayRepeat = () => true } = given;
  const run = new CommandRun({ id: jid, command: 'x', minions: ['a', 'b'], lost, owner: 'o' });
  const definition = { name: 'site.go', description: 'x', function: 'site.go', reviewed: 'test' };
  const repeated = new Catalog([{ ...definition, idempotent: true, retries: 1 }]);
  const published: RunRequest['tgt'][] = [];
  const jobs = {
    publish: () => Promise.reject(new Error('nothing is to be ended')),
    run: async function* (request: RunRequest) {
      published.push(request.tgt);
      yield returned('a', 1);
      // The key of the minion is deleted, and another machine gets its id.
      if (given.lost !== undefined) lost.add('b');
      if (given.lost !== undefined) yield returned('b');
    },
  };
  const command = repeated.get('site.go');
  const outcome = await executeCommandRun(jobs, run, { ...execution, command, mayRepeat });
  return { published, outcome };
}

test('a run does not repeat a command that the rules no longer permit', async (t) => {
  const judged: (readonly string[])[] = [];
  const mayRepeat = (minions: readonly string[]): boolean => {
    judged.push(minions);
    return false;
  };
  const { published } = await repeat({ mayRepeat });
  t.deepEqual([published, judged], [[['a', 'b']], [['a', 'b']]]);
  t.is((await repeat({})).published.length, 2);
});

test('a minion whose key has ended gets no further job of a run, and returns nothing to it', async (t) => {
  const { published, outcome } = await repeat({ lost: new Set() });
  t.deepEqual(published, [['a', 'b'], ['a']]);
  t.is(outcome.status, 'failed');
  t.like(outcome.results[1], { minion: 'b', state: 'silent' });
});

test('the deliveries of a job are read once, for any number of silent minions', async (t) => {
  const minions = Array.from({ length: 200 }, (_, at) => `web${at}`);
  let looks = 0;
  const deliveries = minions.map(
    (minion, at): Delivery => ({
      get minion() {
        looks += 1;
        return minion;
      },
      state: 'silent',
      ...(at === 0 ? { reason: 'not-sent' as const } : {}),
    }),
  );
  const run = new CommandRun({ id: jid, command: 'site.go', minions, owner: 'o' });
  const finished = { type: 'finished', jid, answered: [], silent: minions } as const;
  const jobs = {
    publish: () => t.fail('nothing is to be ended') as never,
    run: () => stream({ ...finished, reconnecting: [], deliveries }),
  };
  const { results } = await executeCommandRun(jobs, run, execution);
  t.regex(results[0]?.reason ?? '', /before it sent the command/);
  t.is(results[1]?.reason, 'no response');
  t.is(looks, minions.length);
});

const sized = new Catalog([
  {
    ...{ name: 'site.ask', description: 'x', function: 'site.ask', reviewed: 'made for this test' },
    returns: { type: 'object' },
  },
]);

for (const [what, command, retcode, expected] of [
  ['succeeded', catalog.get('site.go'), 0, { state: 'succeeded', reason: /did not store/ }],
  ['failed', catalog.get('site.go'), 2, { state: 'failed', reason: /other than 0.*did not store/ }],
  [
    'an unknown result',
    sized.get('site.ask'),
    0,
    { state: 'failed', reason: /is unknown.*did not/ },
  ],
] as const) {
  test(`a command whose return was not stored: ${what}`, (t) => {
    const given = { minion: 'm1', return: 'a notice', retcode, notStored: true } as const;
    const result = commandResultOf(command, given);
    t.is(result.state, expected.state);
    t.regex(result.reason ?? '', expected.reason);
    t.false('return' in result);
  });
}
