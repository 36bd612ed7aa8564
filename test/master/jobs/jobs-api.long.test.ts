/** The interface to jobs, with minions that are connected through libzmq. */

import test from 'ava';
import fc from 'fast-check';
import type { BatchUpdate, JobReturn, JobUpdate, RunRequest } from '#master';
import { runBatch, type StartTimer } from '#master/jobs/batch.ts';
import { findRunning } from '#master/jobs/follow-job.ts';
import type { WireValue } from '#minion-protocol';
import { within } from '../../helpers/deadline.ts';
import { tries } from '../../helpers/effort.ts';
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

test('a published job is stored with its returns, whether or not a caller waits', async (t) => {
  const { master } = await startFleet(t, { ids: ['m1', 'm2'] });
  const returned = takeTwo(await master.events.subscribe({ match: `salt/job/${jid}/ret/*` }));
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

test('a jid can be used once, and must be valid', async (t) => {
  const { master } = await startFleet(t, { ids: [] });
  const error = { code: 'ERR_ARGS' };
  await t.throwsAsync(master.jobs.publish({ tgt: '*', fun: 'test.ping', jid: 'req' }), error);
  const fleet = await startFleet(t, { ids: ['m1'] });
  await fleet.master.jobs.publish({ tgt: 'm1', fun: 'test.ping', jid });
  await t.throwsAsync(fleet.master.jobs.publish({ tgt: 'm1', fun: 'test.ping', jid }), error);
});

test('jobs are listed from the latest on, and an unknown jid is refused', async (t) => {
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

test('several functions are published as lists, and invalid lists are refused', async (t) => {
  const { master } = await startFleet(t, { ids: ['m1'] });
  const published = await master.events.subscribe({ match: 'salt/job/*/publish' });
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

test('a subset contains minions with the function, and at most the requested number', async (t) => {
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

test('all slices of a batch are one job for all of their minions', async (t) => {
  const { master } = await startFleet(t, { ids: ['m1', 'm2', 'm3'] });
  const jids = new Set<string>();
  const received: string[] = [];
  for await (const update of master.jobs.batch({ tgt: '*', fun: 'test.echo', arg: [1], size: 2 })) {
    if (update.type === 'published') jids.add(update.jid);
    if (update.type === 'return') received.push(update.minion);
  }
  t.deepEqual(received.sort(), ['m1', 'm2', 'm3']);
  const [jid = '', ...others] = jids;
  t.deepEqual(others, []);
  const { tgt, deliveries, returns } = await master.jobs.show(jid);
  t.deepEqual([...tgt].sort(), ['m1', 'm2', 'm3']);
  t.deepEqual(
    deliveries.map(({ state }) => state),
    ['answered', 'answered', 'answered'],
  );
  t.is(returns.length, 3);
});

test('an existing jid is accepted only for further minions of the same function', async (t) => {
  const { master } = await startFleet(t, { ids: ['m1', 'm2'] });
  const publish = (minion: string, fun: string) =>
    master.jobs.publish({ tgt: [minion], tgtType: 'list', fun, jid: '20200102030405678901' });
  await publish('m1', 'test.ping');
  const taken = { code: 'ERR_ARGS', message: /already exists/ };
  await t.throwsAsync(publish('m1', 'test.ping'), taken);
  await t.throwsAsync(publish('m2', 'test.echo'), taken);
  const second = await publish('m2', 'test.ping');
  t.deepEqual(second.minions, ['m2']);
  const minions = (await master.jobs.show(second.jid)).deliveries.map(({ minion }) => minion);
  t.deepEqual(minions, ['m1', 'm2']);
});

test('a caller can wait for the minions of a job that was just published', async (t) => {
  const { master, minions } = await startFleet(t, { ids: ['m1'] });
  await minions.get('m1')?.stop();
  const { jid: own } = await master.jobs.publish({ tgt: '*', fun: 'test.ping' });
  const { deliveries } = await master.jobs.show(own);
  t.deepEqual(deliveries, [{ minion: 'm1', state: 'waiting' }]);
});

test('the ledger contains the result for each minion, and the reason', async (t) => {
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
    timeoutSeconds: 4,
    gatherJobTimeoutSeconds: 1,
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
  const noMinions = { running: 0, waiting: 0, reconnecting: 0 };
  t.deepEqual(report.counts, { ...noMinions, answered: 1, failed: 1, silent: 2 });
  await master.keys.delete({ match: 'm3' });
  const [, , later] = (await master.jobs.show(finished.jid)).deliveries;
  t.deepEqual(later, { minion: 'm3', state: 'silent', reason: 'key-not-accepted' });
});

// Batches with simulated jobs: which minions get the job when.

interface FakeMinions {
  readonly ids: readonly string[];
  readonly retcodes?: Readonly<Record<string, number>>;
  /** Minions that answer the ping, and then nothing. */
  readonly mute?: readonly string[];
  /** Minions that do not answer the ping. */
  readonly down?: readonly string[];
}

interface Ran {
  readonly sent: string[][];
  most: number;
}

/** Runs simulated jobs. Returns arrive in a later turn of the event loop, as over a network. */
function fakeRun({ ids, retcodes = {}, mute = [], down = [] }: FakeMinions, ran: Ran) {
  let active = 0;
  return async function* run(request: RunRequest): AsyncGenerator<JobUpdate, void, void> {
    const isPing = request.fun === 'test.ping';
    const minions = isPing ? [...ids, ...down] : [...request.tgt];
    if (!isPing) ran.sent.push(minions);
    yield { type: 'published', jid: '1', minions, missing: [], skipped: 0 };
    active += isPing ? 0 : minions.length;
    ran.most = Math.max(ran.most, active);
    const silent = minions.filter((id) => down.includes(id) || (!isPing && mute.includes(id)));
    for (const minion of minions.filter((id) => !silent.includes(id))) {
      await new Promise(setImmediate);
      active -= isPing ? 0 : 1;
      const retcode = isPing ? 0 : (retcodes[minion] ?? 0);
      const result = { fun: 'x.y', return: true, retcode, success: true, receivedAt: 0 };
      yield { type: 'return', jid: '1', minion, ...result };
    }
    active -= isPing ? 0 : silent.length;
    yield { type: 'finished', jid: '1', answered: [], silent, reconnecting: [], deliveries: [] };
  };
}

async function batch(
  minions: FakeMinions,
  spread: { size: number | string; waitSeconds?: number; failHard?: boolean },
): Promise<Ran & { updates: BatchUpdate[] }> {
  const ran: Ran = { sent: [], most: 0 };
  const request = { tgt: '*', fun: 'x.y', ...spread };
  const updates = await collect(runBatch(fakeRun(minions, ran), request));
  return { ...ran, updates };
}

test('each minion gets the job once, within the permitted concurrency', async (t) => {
  const property = fc.asyncProperty(
    fc.integer({ min: 0, max: 9 }),
    fc.integer({ min: 1, max: 5 }),
    async (minions, size) => {
      const ids = Array.from({ length: minions }, (_, index) => `m${index}`);
      const mute = ids.filter((_, index) => index % 3 === 2);
      const { sent, most } = await batch({ ids, mute }, { size });
      return JSON.stringify(sent.flat()) === JSON.stringify(ids) && most <= size;
    },
  );
  await fc.assert(property, tries(50));
  t.pass();
});

test('a percentage applies to the minions that answered the ping, and means at least one', async (t) => {
  const ids = ['m1', 'm2', 'm3', 'm4', 'm5'];
  t.is((await batch({ ids, down: ['m6', 'm7', 'm8'] }, { size: '50%' })).most, 2);
  t.is((await batch({ ids }, { size: '1%' })).most, 1);
  t.is((await batch({ ids }, { size: '100%' })).most, 5);
  t.is((await batch({ ids }, { size: ' 40%' })).most, 2);
  t.is((await batch({ ids }, { size: '%40' })).most, 2);
  t.is((await batch({ ids }, { size: ' 3 ' })).most, 3);
});

test('minions that do not answer the ping get no job', async (t) => {
  const { sent, updates } = await batch({ ids: ['m1'], down: ['m2'] }, { size: 5 });
  t.deepEqual(sent, [['m1']]);
  t.deepEqual(updates[0], { type: 'gathered', minions: ['m1'], silent: ['m2'] });
});

test('a failure ends the batch if configured, and names the remaining minions', async (t) => {
  const minions = { ids: ['m1', 'm2', 'm3'], retcodes: { m1: 2 } };
  const hard = await batch(minions, { size: 1, failHard: true });
  t.deepEqual(hard.sent, [['m1']]);
  t.deepEqual(hard.updates.at(-1), { type: 'ended', failed: 'm1', left: ['m2', 'm3'] });
  const soft = await batch(minions, { size: 1 });
  t.deepEqual(soft.sent, [['m1'], ['m2'], ['m3']]);
});

test('a place stays empty for the requested time', async (t) => {
  const ran: Ran = { sent: [], most: 0 };
  const request = { tgt: '*', fun: 'x.y', size: 1, waitSeconds: 2.5 };
  const waits: number[] = [];
  const sentWhenWaiting: string[][][] = [];
  const start: StartTimer = (milliseconds, onEnd) => {
    waits.push(milliseconds);
    // Everything that does not depend on the timer happens first.
    const turn = setTimeout(() => {
      sentWhenWaiting.push([...ran.sent]);
      onEnd();
    }, 10);
    return () => clearTimeout(turn);
  };
  await collect(runBatch(fakeRun({ ids: ['m1', 'm2'] }, ran), request, undefined, start));
  t.is(waits[0], 2500);
  t.deepEqual(sentWhenWaiting[0], [['m1']]);
  t.deepEqual(ran.sent, [['m1'], ['m2']]);
});

test('leaving a batch ends it, and no further job is sent', async (t) => {
  const ran: Ran = { sent: [], most: 0 };
  const run = fakeRun({ ids: ['m1', 'm2', 'm3'] }, ran);
  const leave = new AbortController();
  const request = { tgt: '*', fun: 'x.y', size: 1 };
  for await (const update of runBatch(run, request, leave.signal)) {
    if (update.type === 'return') leave.abort();
  }
  t.deepEqual(ran.sent, [['m1']]);
});

test('a batch fails with the error of its job', async (t) => {
  const ran: Ran = { sent: [], most: 0 };
  const run = fakeRun({ ids: ['m1'] }, ran);
  async function* failing(request: RunRequest): AsyncGenerator<JobUpdate, void, void> {
    if (request.fun !== 'test.ping') throw new RangeError('broken');
    yield* run(request);
  }
  const request = { tgt: '*', fun: 'x.y', size: 1 };
  await t.throwsAsync(collect(runBatch(failing, request)), { instanceOf: RangeError });
});

test('an invalid size is refused before any job is sent', async (t) => {
  for (const size of [0, -1, Number.NaN, '', '0', '1.5', 'x%', '%']) {
    const ran: Ran = { sent: [], most: 0 };
    const request = { tgt: '*', fun: 'x.y', size };
    const run = runBatch(fakeRun({ ids: ['m1'] }, ran), request);
    await t.throwsAsync(collect(run), { code: 'ERR_ARGS' }, String(size));
  }
});

// The job that asks silent minions whether they still run the job.

const never = new AbortController().signal;

interface Round {
  /** Resolves when this job was published. */
  readonly published: Promise<void>;
  /** Delivers the return of a minion. */
  answer(minion: string, value: WireValue): void;
  readonly listeners: number;
  /** Users on whose behalf the master asked. */
  readonly askers: readonly (string | undefined)[];
  readonly dispatcher: Parameters<typeof findRunning>[0];
}

function startRound(publish: () => Promise<void> = async () => {}): Round {
  const listeners = new Set<(result: JobReturn) => void>();
  const askers: (string | undefined)[] = [];
  let notePublished = (): void => {};
  const published = new Promise<void>((resolve) => {
    notePublished = resolve;
  });
  return {
    published,
    askers,
    answer: (minion, value) => {
      const rest = { fun: 'saltutil.find_job', retcode: 0, success: true, receivedAt: 0 };
      for (const listener of listeners) listener({ minion, return: value, ...rest });
    },
    get listeners() {
      return listeners.size;
    },
    dispatcher: {
      publishUnstored: async ({ by }, onReturn) => {
        askers.push(by?.who.name);
        await publish();
        listeners.add(onReturn);
        notePublished();
        return () => listeners.delete(onReturn);
      },
    },
  };
}

test('minions that acknowledge a job run it, and the round ends when all have returned', async (t) => {
  const round = startRound();
  const asked = findRunning(round.dispatcher, jid, ['web1', 'web2'], 600_000, never);
  await round.published;
  round.answer('web1', { jid: jid });
  round.answer('web2', { jid: jid });
  t.deepEqual(await asked, new Set(['web1', 'web2']));
});

test('the question about a job counts for the requester that follows the job', async (t) => {
  const round = startRound();
  const by = { who: { kind: 'user', name: 'alice' }, rule: 'all' } as const;
  await findRunning(round.dispatcher, jid, ['web1'], 1, never, by);
  await findRunning(round.dispatcher, jid, ['web1'], 1, never);
  t.deepEqual(round.askers, ['alice', undefined]);
});

test('the time to answer the question starts when the question is published', async (t) => {
  const gatherMs = 100;
  const round = startRound(() => new Promise((resolve) => setTimeout(resolve, 2 * gatherMs)));
  const asked = findRunning(round.dispatcher, jid, ['web1'], gatherMs, never);
  await round.published;
  // Only promises settle here, so that no timer can end the time between publication and answer.
  for (let turn = 0; turn < 20; turn += 1) await undefined;
  round.answer('web1', { jid: jid });
  t.deepEqual(await asked, new Set(['web1']));
});

test('a minion that does not confirm the job has the whole round to return', async (t) => {
  const round = startRound();
  const end = new AbortController();
  let isOver = false;
  const asked = findRunning(round.dispatcher, jid, ['web1', 'web2'], 600_000, end.signal).finally(
    () => {
      isOver = true;
    },
  );
  await round.published;
  round.answer('web1', { jid: jid });
  round.answer('web2', {});
  await new Promise(setImmediate);
  t.false(isOver);
  end.abort();
  t.deepEqual(await asked, new Set(['web1']));
});

test('a finished round has no listeners, however it ended', async (t) => {
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
