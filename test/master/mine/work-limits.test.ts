/** Limits for the work that one minion can cause with the mine. Other minions are not affected. */

import test from 'ava';
import { resolveMasterConfig } from '#config';
import { rulesOf } from '#config/policy-rules.ts';
import { TargetResolver } from '#master/jobs/targets.ts';
import { factsOf, type WireMap, type WireValue } from '#minion-protocol';
import { FairSlots, type WorkBudget } from '#runtime';
import { saltLimits } from '#salt/limits.ts';
import { MineReader } from '#salt/mine/mine-reader.ts';
import { MineStore } from '#salt/mine/mine-store.ts';
import { createMemoryStore } from '#store';
import { gateOf, policyOf } from '../../helpers/policies.ts';
import { slicesOf } from '../../helpers/slices.ts';
import { startVectorMaster, type VectorMaster } from '../../helpers/vector-master.ts';
import { altered, freshNonce, openReply, recorded } from '../../helpers/vector-requests.ts';
import { canonicalWire } from '../../helpers/vectors.ts';

async function ask(
  { ask }: VectorMaster,
  name: string,
  load: Record<string, WireValue>,
): Promise<string> {
  const vector = recorded('aes_functions', name);
  const nonce = freshNonce();
  const answer = await ask(altered(vector, { load: { ...load, nonce } }));
  return canonicalWire(openReply(vector, answer, nonce));
}

function guarded(allow_tgt: WireValue, allow_tgt_type: string): WireMap {
  return { __data__: 'secret', __saltmine_acl__: 1, allow_tgt, allow_tgt_type };
}

const programs = ['E@x{1000}', 'E@y{1000}', '*'].join(' or ');

for (const [title, tgt, tgtType] of [
  ['a glob of brackets', '['.repeat(200_000), 'glob'],
  ['many programs of regular expressions', Array(90).fill('E@x{1000}').join(' or '), 'compound'],
  ['one large program', 'x{1000}'.repeat(100), 'pcre'],
] as const) {
  test(`a mine query with ${title} finds nothing, and is counted by its reason`, async (t) => {
    const master = await startVectorMaster(t);
    await ask(master, '_mine v3', {});
    const found = await ask(master, '_mine_get one function v3', { tgt, tgt_type: tgtType });
    t.is(found, canonicalWire({}));
    t.is((await master.counters())['mine-work-limit'], 1);
  });
}

test('a value with a costly allow_tgt is not stored, and others of the request are', async (t) => {
  const master = await startVectorMaster(t);
  const data = {
    a: guarded('['.repeat(60_000), 'glob'),
    b: guarded(programs, 'compound'),
    c: guarded(
      Array.from({ length: 3000 }, (_, at) => `web${at}`),
      'list',
    ),
    d: 1,
  };
  t.is(await ask(master, '_mine v3', { data }), canonicalWire(false));
  t.is((await master.counters())['mine-allow-tgt'], 2);
  const stored: string[] = [];
  for await (const { key } of master.store.list(['mine'])) stored.push(key.at(-1) ?? '');
  t.deepEqual(stored, ['c', 'd']);
});

/** @param onCompile - receives the budget of each query whose target is compiled */
function startReader(
  ids: readonly string[],
  onCompile: (budget: WorkBudget) => unknown = () => {},
): { mine: MineStore; reader: MineReader } {
  const mine = new MineStore({
    store: createMemoryStore(),
    isOn: true,
    maxBytes: 10_000_000,
    maxValueBytes: 1_000_000,
    keepMarksMs: 60_000,
    now: () => 0,
  });
  const targets = new TargetResolver({
    acceptedIds: () => ids,
    isAccepted: () => true,
    factsOf: () => ({ grains: factsOf({}), pillar: factsOf({}) }),
    isDataCached: true,
    nodegroups: {},
  });
  const reader = new MineReader({
    mine,
    targets: {
      compileWithin: (target, isEveryone, budget) => {
        onCompile(budget);
        return targets.compileWithin(target, isEveryone, budget);
      },
      entitles: targets.entitles.bind(targets),
      matches: targets.matches.bind(targets),
    },
    gate: gateOf(policyOf(rulesOf(resolveMasterConfig()))),
    slots: new FairSlots(saltLimits.mineQueries),
    trustsGrains: false,
    maxBytes: 10_000_000,
  });
  return { mine, reader };
}

test('a stored value with a costly allow_tgt is withheld, but no other value', async (t) => {
  const ids = ['db1', 'web1', 'web2'];
  const { mine, reader } = startReader(ids);
  const funs = Array.from({ length: 100 }, (_, at) => `f${at}`);
  for (const id of ids) {
    const value = id === 'db1' ? guarded(programs, 'compound') : guarded('web*', 'glob');
    const data = Object.fromEntries(funs.map((fun) => [fun, value]));
    await mine.update(id, { data, clear: false }, undefined);
  }
  const answer = await reader.read('web1', { target: { tgt: '*' }, fun: funs });
  t.true(answer.ok && answer.isWithheld);
  for (const fun of funs) {
    t.deepEqual(answer.ok && answer.value[fun], { web1: 'secret', web2: 'secret' });
  }
});

test('a minion has one query in progress, and a limited number wait', async (t) => {
  const { reader } = startReader(['web1', 'web2']);
  const tgt = Array.from({ length: 300 }, (_, at) => `*${at}*`).join(' or ');
  const query = { target: { tgt, tgtType: 'compound' }, fun: 'f' };
  const reads = Array.from({ length: 50 }, () => reader.read('web1', query));
  const other = await reader.read('web2', query);
  t.true(other.ok);
  const outcomes = await Promise.allSettled(reads);
  const rejected = outcomes.filter((it) => it.status === 'rejected');
  t.is(rejected.length, 50 - 1 - 32);
  for (const { reason } of rejected) t.is(reason.code, 'ERR_LIMIT');
});

test('the targets of one update share a budget, and equal ones are compiled once', async (t) => {
  const master = await startVectorMaster(t);
  const names = (mark: string): string[] => Array.from({ length: 3000 }, (_, at) => `${mark}${at}`);
  const update = async (targetOf: (at: number) => string[]): Promise<number> => {
    const entries = Array.from({ length: 60 }, (_, at) => [
      `f${at}`,
      guarded(targetOf(at), 'list'),
    ]);
    await ask(master, '_mine v3', { data: Object.fromEntries(entries), clear: true });
    return (await master.counters())['mine-allow-tgt'] ?? 0;
  };
  t.is(await update(() => names('web')), 0);
  const refused = await update((at) => names(`web${at}-`));
  t.true(refused > 0 && refused < 60, `${refused} values were refused`);
});

test('a target of many functions is compiled and tested on each minion once', async (t) => {
  const ids = Array.from({ length: 200 }, (_, at) => `web${at}`);
  const budgets: WorkBudget[] = [];
  const { reader } = startReader(ids, (budget) => budgets.push(budget));
  const tgt = Array.from({ length: 50 }, (_, at) => `*x${at}*y*z*`).join(' or ');
  const many = Array.from({ length: 100 }, (_, at) => `f${at}`);
  for (const fun of [['f0'], many]) {
    const query = { target: { tgt, tgtType: 'compound' }, fun };
    t.true((await reader.read('web1', query)).ok);
  }
  const [one, all] = budgets;
  t.is(budgets.length, 2);
  t.true(one !== undefined && one.steps > 50_000, String(one?.steps));
  t.is(all?.steps, one?.steps);
});

test.serial('a query of values that do not exist lets other work run', async (t) => {
  const ids = Array.from({ length: 5000 }, (_, at) => `web${at}`);
  const { reader } = startReader(ids);
  const query = { target: { tgt: '*' }, fun: 'none' };
  const slices = await slicesOf(async () => t.true((await reader.read('web1', query)).ok));
  // Each look-up takes about 300 steps, and other work runs after 100,000 steps.
  t.true(slices.length >= 15, `${slices.length} slices`);
});
