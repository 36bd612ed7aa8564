/** Runners whose results are large let other work run after each slice. */

import test from 'ava';
import type { AuditRequester, JobUpdate } from '#master';
import { trimValues } from '#master/events/trim-values.ts';
import { JobCache } from '#master/jobs/job-cache.ts';
import { jobRow } from '#master/jobs/job-row.ts';
import {
  pythonStrInSlices,
  toPythonValue,
  unboundedStr,
  WireDateTime,
  type WireMap,
  type WireValue,
} from '#minion-protocol';
import { maxSliceSteps, userWork, WorkBudget } from '#runtime';
import type { FunctionTable } from '#salt/functions/define-function.ts';
import type { RequesterTargets } from '#salt/minion-calls.ts';
import { askRunners } from '#salt/runners/ask-runners.ts';
import { CacheBanks } from '#salt/runners/cache-banks.ts';
import { cacheRunner } from '#salt/runners/cache-runner.ts';
import { docRunner } from '#salt/runners/doc-runner.ts';
import { jobsRunner } from '#salt/runners/jobs-runner.ts';
import { manageRunner } from '#salt/runners/manage-runner.ts';
import { createMemoryStore, type Operation } from '#store';
import { splitLines } from '#template';
import { Float } from '#template/python/values.ts';
import { slicesOf } from '../../helpers/slices.ts';

/** Calls a function of a runner. */
async function call(
  table: FunctionTable,
  fun: string,
  kwarg: WireMap = {},
  by?: AuditRequester,
  requireWheel?: () => Promise<void>,
): Promise<WireValue> {
  const bound = table[fun]?.bind([], kwarg);
  if (bound === undefined) throw new Error(`unknown function ${fun}`);
  return bound({
    ...{ jid: '1', user: 'u', by, requireWheel, timeoutSeconds: undefined, emit: () => {} },
    closing: new AbortController().signal,
    asked: { fun, arg: [], kwarg },
    continueElsewhere: () => {},
    atEnd: () => {},
  });
}

/** Jobs interface with minions that return these values. */
function jobsWith(returns: readonly WireValue[]): {
  run: () => AsyncGenerator<JobUpdate, void, void>;
} {
  return {
    run: async function* () {
      for (const [number, value] of returns.entries()) {
        const more = { fun: 'x', retcode: 0, success: true, receivedAt: 0 };
        yield { type: 'return', jid: '1', minion: `web${number}`, return: value, ...more };
      }
    },
  };
}

const noTargets: RequesterTargets = {
  resolve: () => Promise.reject(new Error('no target is resolved')),
  resolveExact: () => Promise.reject(new Error('no target is resolved')),
};

function idsOf(count: number): string[] {
  return Array.from({ length: count }, (_, number) => `web${number}`);
}

/** Steps by which the last entry of a slice may exceed it. */
const maxExcess = 25_000;

function areShort(slices: readonly number[]): boolean {
  return slices.every((steps) => steps <= maxSliceSteps + maxExcess);
}

test.serial('manage.versions groups the minions of a large fleet', async (t) => {
  const runner = manageRunner({
    keys: { delete: async () => [] },
    targets: noTargets,
    acceptedIds: () => idsOf(2000),
    present: () => [],
    version: '1',
    jobs: jobsWith(['3006.1', '3007.0', '2019.2']),
  });
  const result = await call(runner, 'manage.versions');
  t.deepEqual(Object.keys(Object(result)).sort(), [
    'Master',
    'Minion offline',
    'Minion requires update',
    'Up to date',
  ]);
  const { 'Up to date': current, 'Minion offline': offline, Master: own } = Object(result);
  t.deepEqual({ ...current }, { web0: '3006.1', web1: '3007.0' });
  t.is(Object.keys(offline).length, 1997);
  t.is(own, '1');
  // A copy of a group for each of its minions would have the usual prototype.
  t.is(Object.getPrototypeOf(offline), null);
});

test.serial(
  'manage.present looks the names of a subset up, and does not search them',
  async (t) => {
    const runner = manageRunner({
      keys: { delete: async () => [] },
      targets: noTargets,
      acceptedIds: () => idsOf(100),
      present: () => [
        { id: 'web1', address: '10.0.0.1', transport: 'tcp', by: 'topic', isSure: true },
      ],
      version: '1',
      jobs: jobsWith([]),
    });
    let searches = 0;
    const subset: string[] = Object.assign(['web1', 'web2', 'none'], {
      includes: () => {
        searches += 1;
        return false;
      },
    });
    t.deepEqual(await call(runner, 'manage.present', { subset }), ['web1']);
    t.deepEqual(await call(runner, 'manage.not_present', { subset }), ['web2']);
    t.is(searches, 0);
  },
);

test('the audit log attributes keys that manage.down deletes to the user', async (t) => {
  const requesters: unknown[] = [];
  const finished = { answered: [], silent: ['web1'], reconnecting: [], deliveries: [] };
  const runner = manageRunner({
    keys: {
      delete: async (_selection, by) => {
        requesters.push(by);
        return [];
      },
    },
    targets: {
      ...noTargets,
      resolveExact: async () => ({ minions: ['web1'], missing: [], isNarrowed: false }),
    },
    acceptedIds: () => ['web1'],
    present: () => [],
    version: '1',
    jobs: {
      run: async function* () {
        yield { type: 'finished', jid: '1', ...finished };
      },
    },
  });
  const by = { who: { kind: 'user', name: 'alice', eauth: 'pam' }, rule: 'all' } as const;
  const removed = { removekeys: true };
  await t.throwsAsync(call(runner, 'manage.down', removed, by), { code: 'ERR_ARGS' });
  t.deepEqual(await call(runner, 'manage.down', removed, by, async () => {}), ['web1']);
  t.deepEqual(requesters, [by]);
});

test.serial('survey writes a large result as text in several slices', async (t) => {
  const entry = { a: [1, 2], b: "it's" };
  const large = Object.fromEntries(Array.from({ length: 5000 }, (_, at) => [`key${at}`, entry]));
  const runner = askRunners({
    api: jobsWith([large, large, 'other']),
    targets: { resolveWithin: () => Promise.reject(new Error('no target is resolved')) },
  });
  let pools: WireValue = null;
  const slices = await slicesOf(async () => {
    pools = await call(runner, 'survey.hash', { tgt: '*', fun: 'x' });
  });
  t.true(slices.length >= 20 && areShort(slices), `${slices}`);
  t.deepEqual(pools, [
    { pool: ['web0', 'web1'], result: unboundedStr(toPythonValue(large)) },
    { pool: ['web2'], result: 'other' },
  ]);
});

test('text that is written in slices equals the text of Python', async (t) => {
  const time = new WireDateTime('2026-11-27T10:00:00.000000');
  for (const value of [
    null,
    true,
    1.5,
    2n ** 70n,
    new Float(2),
    'text',
    new Uint8Array([65, 0]),
    time,
    [],
    {},
    new Map(),
    [[], {}, new Map(), 'a', [null, false, time, 'quo\'te"']],
    { a: { b: [1, 'x'] }, c: new Uint8Array([1]) },
    new Map<WireValue, WireValue>([
      [1, 'one'],
      [true, ['yes']],
      [[1, 'x'], null],
      ['t', new Map([[2, 3]])],
    ]),
  ] satisfies WireValue[]) {
    const text = await pythonStrInSlices(value, new WorkBudget(userWork));
    t.is(text, unboundedStr(toPythonValue(value)));
  }
});

test('survey.diff compares a limited number of lines, and reads no further ones', async (t) => {
  t.deepEqual(splitLines('a\nb\r\nc', false, 2), ['a', 'b']);
  t.deepEqual(splitLines('a\nb\nc', true, 3), ['a\n', 'b\n', 'c']);
  const runner = askRunners({
    api: jobsWith([`0\n${'a\n'.repeat(2000)}`, `1\n${'a\n'.repeat(999)}b`]),
    targets: { resolveWithin: () => Promise.reject(new Error('no target is resolved')) },
  });
  const pools = await call(runner, 'survey.diff', { tgt: '*', fun: 'x' });
  t.is(Object(pools)[1].diff, '-0\n+1');
});

test.serial('data of many minions is unpacked with pauses', async (t) => {
  const ids = idsOf(100);
  const store = createMemoryStore();
  const runner = cacheRunner({
    facts: {
      of: () => ({
        grains: { get: () => undefined, whole: () => ({ os: 'Debian' }) },
        pillar: undefined,
      }),
      forgetPart: async () => {},
    },
    mine: undefined,
    targets: {
      resolve: async () => ({
        ...{ minions: ids, missing: [], isNarrowed: false, unknown: [], resources: new Map() },
        ...{ target: { tgt: '*', tgtType: 'glob' }, problem: undefined },
      }),
      resolveExact: async () => ({ minions: ids, missing: [], isNarrowed: false }),
    },
    acceptedIds: () => ids,
    banks: new CacheBanks(store),
  });
  const shown = await slicesOf(async () => {
    t.is(Object.keys(Object(await call(runner, 'cache.grains'))).length, 100);
  });
  t.true(shown.length >= 19 && areShort(shown), `${shown}`);
  const cleared = await slicesOf(() => call(runner, 'cache.clear_grains', { tgt: '*' }));
  t.true(cleared.length >= 1, `${cleared}`);
});

test.serial('the documentation of many minions is merged with pauses', async (t) => {
  const docs = Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`m.f${at}`, 'text']));
  const runner = docRunner({
    docs: { runner: () => ({}), wheel: () => ({}) },
    jobs: jobsWith(Array.from({ length: 50 }, () => docs)),
  });
  const slices = await slicesOf(async () => {
    t.is(Object.keys(Object(await call(runner, 'doc.execution'))).length, 1000);
  });
  t.true(slices.length >= 19 && areShort(slices), `${slices}`);
});

test.serial('jobs.active lists a limited number of jobs of each minion, by jid', async (t) => {
  const running = Array.from({ length: 1500 }, (_, at) => ({
    jid: String((at * 7919) % 1500).padStart(20, '0'),
  }));
  const runner = jobsRunner({
    running: () => [],
    cache: {
      record: async () => undefined,
      records: async function* () {},
      returnedMinions: async () => [],
      returns: async function* () {},
    },
    jobs: jobsWith([running, [{ jid: '9' }]]),
  });
  const listed = await call(runner, 'jobs.active');
  const jids = listed instanceof Map ? [...listed.keys()].map(String) : [];
  t.is(jids.length, 1001);
  t.deepEqual(jids, jids.toSorted());
});

test('jobs.active reads no returns, and trusts no minion about the jobs of others', async (t) => {
  const store = createMemoryStore();
  const [shared, foreign, taken] = ['1', '2', '3'].map((end) => end.padStart(20, '0'));
  const record = { fun: 'x', arg: [], tgt: '*', tgtType: 'glob', user: 'root', missing: [] };
  const jobOf = (jid = '', minions: readonly string[] = []): Operation => ({
    ...{ op: 'put', key: ['jobs', jid] },
    value: jobRow.encode({ ...record, jid, minions, publishedAt: 0, selfMade: false }),
  });
  const returnOf = (jid = '', ...from: readonly string[]): Operation => ({
    ...{ op: 'put', key: ['returns', jid, ...from], value: Buffer.from('not a return') },
  });
  await store.write([
    ...[jobOf(shared, ['web0', 'web1', 'web2']), returnOf(shared, 'web1')],
    ...[returnOf(shared, 'web2'), returnOf(shared, 'web2', 'resource')],
    ...[jobOf(foreign, ['web1']), returnOf(foreign, 'web1')],
    ...[jobOf(taken, ['web1']), returnOf(taken, 'web1')],
  ]);
  const claims = [shared, foreign, taken, 'x'.repeat(600), ''].map((jid = '') => ({ jid }));
  const options = { store, isOn: true, keepMs: 1, keepMarksMs: 1, now: () => 0 };
  const runner = jobsRunner({
    running: () => [],
    cache: new JobCache(options),
    jobs: jobsWith([claims, [{ jid: taken ?? '' }]]),
  });
  const active = await call(runner, 'jobs.active');
  const returned = active instanceof Map ? [...active].map(([, it]) => Object(it).Returned) : [];
  t.deepEqual(returned, [[], ['web1', 'web2'], [], ['web1'], []]);
});

test('values of events are measured only until they are too large', (t) => {
  let reads = 0;
  const entries = Array.from({ length: 1000 }, (_, at) => ({
    get text(): string {
      reads += 1;
      return `${at}`.padEnd(999);
    },
  }));
  const data = { list: entries, map: Object.fromEntries(entries.entries()), small: 'x' };
  const kept = trimValues(data, 20_000);
  t.deepEqual(kept, { list: 'VALUE_TRIMMED', map: 'VALUE_TRIMMED', small: 'x' });
  t.true(reads <= 50, `${reads}`);
  const sizes = { a: 'x'.repeat(60), b: ['y'.repeat(40)], c: new Map([['z', 'z'.repeat(30)]]) };
  t.deepEqual(trimValues(sizes, 100), { ...sizes, a: 'VALUE_TRIMMED' });
  t.is(trimValues(sizes, 142), sizes);
  t.is(trimValues(data, 0), data);
});
