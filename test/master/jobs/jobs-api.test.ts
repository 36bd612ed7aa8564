/** The interface to jobs, with minions that reach the master through libzmq. */
import test from 'ava';
import type { BatchUpdate, JobUpdate } from '../../../master/index.ts';
import { within } from '../../helpers/deadline.ts';
import { collect, startFleet } from '../../helpers/fleet.ts';

const jid = '20240102030405123456';

function returnsOf(updates: readonly (JobUpdate | BatchUpdate)[]): Map<string, unknown> {
  return new Map(
    updates.flatMap((update) => (update.type === 'return' ? [[update.minion, update.return]] : [])),
  );
}

async function takeTwo(events: AsyncIterable<unknown>): Promise<void> {
  let left = 2;
  for await (const _event of events) {
    left -= 1;
    if (left === 0) return;
  }
}

test('a published job is kept with what comes back, whoever waits', async (t) => {
  const { master } = await startFleet(t, { ids: ['m1', 'm2'] });
  const returned = takeTwo(master.events.subscribe({ match: `salt/job/${jid}/ret/*` }));
  const receipt = await master.jobs.publish({ tgt: '*', fun: 'test.ping', user: 'me', jid });
  t.deepEqual(receipt, { jid, minions: ['m1', 'm2'], missing: [], skipped: 0 });
  await within('two returns', returned);
  const report = await master.jobs.show(jid);
  t.deepEqual(
    report.returns.map(({ minion, return: value }) => [minion, value]),
    [
      ['m1', true],
      ['m2', true],
    ],
  );
  t.is(report.user, 'me');
  const [summary] = await master.jobs.list();
  t.is(summary?.jid, jid);
  t.is(summary?.counts.answered, 2);
});

test('a jid serves once, and must be one', async (t) => {
  const { master } = await startFleet(t, { ids: [] });
  const error = { code: 'ERR_ARGS' };
  await t.throwsAsync(master.jobs.publish({ tgt: '*', fun: 'test.ping', jid: 'req' }), error);
  const fleet = await startFleet(t, { ids: ['m1'] });
  await fleet.master.jobs.publish({ tgt: 'm1', fun: 'test.ping', jid });
  await t.throwsAsync(fleet.master.jobs.publish({ tgt: 'm1', fun: 'test.ping', jid }), error);
});

test('jobs are listed from the latest on, and a jid that nobody has is refused', async (t) => {
  const { master } = await startFleet(t, { ids: ['m1'] });
  for (const fun of ['test.ping', 'test.version', 'test.echo']) {
    await master.jobs.publish({ tgt: 'm1', fun });
  }
  const jobs = await master.jobs.list({ limit: 2 });
  t.deepEqual(
    jobs.map(({ fun }) => fun),
    ['test.echo', 'test.version'],
  );
  await t.throwsAsync(master.jobs.show(jid), { code: 'ERR_JOB_UNKNOWN' });
});

test('several functions are published as lists, and nothing else passes for them', async (t) => {
  const { master } = await startFleet(t, { ids: ['m1'] });
  const published = master.events.subscribe({ match: 'salt/job/*/publish' });
  const next = published[Symbol.asyncIterator]().next();
  const arg = [[], ['hi', { __kwarg__: true, a: 1 }]];
  const { jid: own } = await master.jobs.publish({
    tgt: 'm1',
    fun: ['test.ping', 'test.echo'],
    arg,
  });
  const event = await next;
  t.deepEqual(event.done ? undefined : event.value.data.fun, ['test.ping', 'test.echo']);
  t.deepEqual(event.done ? undefined : event.value.data.arg, arg);
  t.deepEqual((await master.jobs.show(own)).fun, ['test.ping', 'test.echo']);
  for (const wrong of [
    { fun: ['test.ping', 'test.echo'], arg: [[]] },
    { fun: ['test.ping'], arg: ['text'] },
    { fun: ['test.ping', 'no function'], arg: [[], []] },
    { fun: ['test.ping'], arg: [[]], kwarg: { a: 1 } },
    { fun: [], arg: [] },
  ]) {
    await t.throwsAsync(master.jobs.publish({ tgt: 'm1', ...wrong }), { code: 'ERR_ARGS' });
  }
});

test('a subset is of minions that have the function, and no larger than asked', async (t) => {
  const { master } = await startFleet(t, { ids: ['m1', 'm2', 'm3'] });
  const updates = await collect(master.jobs.run({ tgt: '*', fun: 'test.ping', subset: 2 }));
  t.is(returnsOf(updates).size, 2);
  const none = await collect(master.jobs.run({ tgt: '*', fun: 'pkg.install', subset: 2 }));
  t.deepEqual(
    none.map((update) => update.type === 'published' && update.minions),
    [[], false],
  );
});

test('a batch runs on every minion that answers, one at a time', async (t) => {
  let atIt = 0;
  const { master } = await startFleet(t, {
    ids: ['m1', 'm2', 'm3'],
    functions: {
      'test.alone': async () => {
        atIt += 1;
        await new Promise(setImmediate);
        const most = atIt;
        atIt -= 1;
        return most;
      },
    },
  });
  const updates = await collect(master.jobs.batch({ tgt: '*', fun: 'test.alone', size: 1 }));
  t.deepEqual(
    [...returnsOf(updates)],
    [
      ['m1', 1],
      ['m2', 1],
      ['m3', 1],
    ],
  );
  t.deepEqual(updates.at(0), { type: 'gathered', minions: ['m1', 'm2', 'm3'], silent: [] });
  t.deepEqual(updates.at(-1), { type: 'ended', left: [] });
});

test('minions of a job that was just published are waited for', async (t) => {
  const { master, minions } = await startFleet(t, { ids: ['m1'] });
  await minions.get('m1')?.stop();
  const { jid: own } = await master.jobs.publish({ tgt: '*', fun: 'test.ping' });
  const { deliveries } = await master.jobs.show(own);
  t.deepEqual(deliveries, [{ minion: 'm1', state: 'waiting' }]);
});

test('the ledger says of each minion what became of the job, and why', async (t) => {
  const { master, minions } = await startFleet(t, {
    ids: ['m1', 'm2', 'm3'],
    config: { timeout: 0, gatherJobTimeout: 0 },
    functions: {
      'test.mixed': (_call, { id }) => {
        if (id === 'm2') throw new Error('no');
        return id;
      },
    },
  });
  await minions.get('m3')?.stop();
  const run = master.jobs.run({
    tgt: ['m1', 'm2', 'm3', 'm9'],
    tgtType: 'list',
    fun: 'test.mixed',
    timeout: 4,
    gatherJobTimeout: 1,
  });
  const finished = (await collect(run)).at(-1);
  if (finished?.type !== 'finished') return t.fail();
  const lines = finished.deliveries.map(({ minion, state, reason }) => [minion, state, reason]);
  t.deepEqual(lines, [
    ['m1', 'answered', undefined],
    ['m2', 'failed', undefined],
    ['m3', 'silent', 'not-heard-since'],
    ['m9', 'silent', 'key-not-accepted'],
  ]);
  const m3 = finished.deliveries[2];
  t.is(typeof m3?.lastHeardAt, 'number');
  const report = await master.jobs.show(finished.jid);
  t.deepEqual(report.deliveries, finished.deliveries);
  const nobody = { running: 0, waiting: 0, reconnecting: 0 };
  t.deepEqual(report.counts, { ...nobody, answered: 1, failed: 1, silent: 2 });
  await master.keys.delete({ match: 'm3' });
  const [, , later] = (await master.jobs.show(finished.jid)).deliveries;
  t.deepEqual(later, { minion: 'm3', state: 'silent', reason: 'key-not-accepted' });
});
