/** Batches over jobs that a test made up: who is sent to when. */
import test from 'ava';
import fc from 'fast-check';
import type { BatchUpdate, JobUpdate, RunRequest } from '../../../master/index.ts';
import { runBatch, type StartTimer } from '../../../master/jobs/batch.ts';
import { collect } from '../../helpers/fleet.ts';

interface FakeMinions {
  readonly ids: readonly string[];
  readonly retcodes?: Readonly<Record<string, number>>;
  /** Answer the ping, and then nothing. */
  readonly mute?: readonly string[];
  /** Do not even answer the ping. */
  readonly down?: readonly string[];
}

interface Ran {
  readonly sent: string[][];
  most: number;
}

/** Each job answers in a later turn, as over a wire. */
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

test('each minion is sent to once, and never more are at it than permitted', async (t) => {
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
  await fc.assert(property, { numRuns: 50 });
  t.pass();
});

test('a part is of those that answered the ping, and at least one', async (t) => {
  const ids = ['m1', 'm2', 'm3', 'm4', 'm5'];
  t.is((await batch({ ids, down: ['m6', 'm7', 'm8'] }, { size: '50%' })).most, 2);
  t.is((await batch({ ids }, { size: '1%' })).most, 1);
  t.is((await batch({ ids }, { size: '100%' })).most, 5);
});

test('nothing is sent to a minion that does not answer the ping', async (t) => {
  const { sent, updates } = await batch({ ids: ['m1'], down: ['m2'] }, { size: 5 });
  t.deepEqual(sent, [['m1']]);
  t.deepEqual(updates[0], { type: 'gathered', minions: ['m1'], silent: ['m2'] });
});

test('a failure ends it when it shall, and says who was left out', async (t) => {
  const minions = { ids: ['m1', 'm2', 'm3'], retcodes: { m1: 2 } };
  const hard = await batch(minions, { size: 1, failHard: true });
  t.deepEqual(hard.sent, [['m1']]);
  t.deepEqual(hard.updates.at(-1), { type: 'ended', failed: 'm1', left: ['m2', 'm3'] });
  const soft = await batch(minions, { size: 1 });
  t.deepEqual(soft.sent, [['m1'], ['m2'], ['m3']]);
});

test('a place stays empty for the time that was asked for', async (t) => {
  const ran: Ran = { sent: [], most: 0 };
  const request = { tgt: '*', fun: 'x.y', size: 1, waitSeconds: 2.5 };
  const waits: number[] = [];
  const sentWhenWaiting: string[][][] = [];
  const start: StartTimer = (milliseconds, onEnd) => {
    waits.push(milliseconds);
    // All that can happen without the timer happens first.
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

test('leaving ends it: nothing more is sent', async (t) => {
  const ran: Ran = { sent: [], most: 0 };
  const run = fakeRun({ ids: ['m1', 'm2', 'm3'] }, ran);
  const leave = new AbortController();
  const request = { tgt: '*', fun: 'x.y', size: 1 };
  for await (const update of runBatch(run, request, leave.signal)) {
    if (update.type === 'return') leave.abort();
  }
  t.deepEqual(ran.sent, [['m1']]);
});

test('what a job fails with, the batch fails with', async (t) => {
  const ran: Ran = { sent: [], most: 0 };
  const run = fakeRun({ ids: ['m1'] }, ran);
  async function* failing(request: RunRequest): AsyncGenerator<JobUpdate, void, void> {
    if (request.fun !== 'test.ping') throw new RangeError('broken');
    yield* run(request);
  }
  const request = { tgt: '*', fun: 'x.y', size: 1 };
  await t.throwsAsync(collect(runBatch(failing, request)), { instanceOf: RangeError });
});

test('a size that is none is refused before anything is sent', async (t) => {
  for (const size of [0, -1, Number.NaN, '', '0', '1.5', 'x%', '%']) {
    const ran: Ran = { sent: [], most: 0 };
    const request = { tgt: '*', fun: 'x.y', size };
    const run = runBatch(fakeRun({ ids: ['m1'] }, ran), request);
    await t.throwsAsync(collect(run), { code: 'ERR_ARGS' }, String(size));
  }
});
