/** Targets of hostile callers with many minions: the total work is limited, and done in slices. */

import test from 'ava';
import { everyone, TargetResolver } from '#master/jobs/targets.ts';
import { factsOf, type WireMap } from '#minion-protocol';
import { maxSliceSteps, minionWork, WorkBudget } from '#runtime';
import { slicesOf } from '../../helpers/slices.ts';

const ids = Array.from({ length: 15_000 }, (_, at) => `web${at}.example.com`);
const known = new Set(ids);
const grains: WireMap = { os: 'Ubuntu', roles: ['web', 'db'], nested: { a: 1 } };

/** Grains for which one search takes a long time. */
const deep: WireMap = { a: Array(200).fill({ b: { c: { d: 'e' } } }), b: grains };

function fleet(own: WireMap = grains): TargetResolver {
  return new TargetResolver({
    acceptedIds: () => ids,
    isAccepted: (id) => known.has(id),
    factsOf: () => ({ grains: factsOf(own), pillar: factsOf({}) }),
    isDataCached: true,
    nodegroups: {},
  });
}

const limit = { code: 'ERR_WORK_LIMIT' };

test.serial('a target of a minion ends at the budget of its request', async (t) => {
  for (const [tgt, tgtType] of [
    [`${'x*'.repeat(100)}y`, 'pcre'],
    [`${'*:'.repeat(99)}a`, 'grain'],
    [Array(90).fill('E@x{1000}').join(' or '), 'compound'],
    ['['.repeat(200_000), 'glob'],
  ] as const) {
    const budget = new WorkBudget(minionWork);
    const resolved = fleet().resolveWithin({ tgt, tgtType }, everyone, budget);
    await t.throwsAsync(resolved, limit, tgt.slice(0, 20));
  }
});

test.serial('several targets of one request share its budget', async (t) => {
  const budget = new WorkBudget(minionWork);
  const targets = fleet();
  const tgt = Array.from({ length: 300 }, (_, at) => `none${at}*`).join(' or ');
  await targets.resolveWithin({ tgt, tgtType: 'compound' }, everyone, budget);
  await t.throwsAsync(async () => {
    for (;;) await targets.resolveWithin({ tgt, tgtType: 'compound' }, everyone, budget);
  }, limit);
});

test.serial('no slice of a long evaluation is long', async (t) => {
  const targets = fleet();
  const patterns = ids.slice(0, 100).map((id) => `E@none${id}.*`);
  for (const tgt of ['G@os:Ubuntu and G@roles:none', patterns.join(' or ')]) {
    const request = { tgt, tgtType: 'compound' };
    const own = new WorkBudget({ steps: Number.POSITIVE_INFINITY });
    const slices = await slicesOf(() => targets.resolveWithin(request, everyone, own));
    t.true(slices.length >= 3, `${slices.length} slices of ${tgt.slice(0, 30)}`);
    t.true(Math.max(...slices) < 2 * maxSliceSteps, String(Math.max(...slices)));
    const greedy = await slicesOf(() => targets.resolve(request));
    t.true(greedy.length >= 3 && Math.max(...greedy) < 2 * maxSliceSteps);
  }
});

test.serial('a stored target has its own budget', (t) => {
  const targets = fleet();
  const budget = new WorkBudget(minionWork);
  const programs = { tgt: 'E@x{1000} or E@y{1000} or web1*', tgtType: 'compound' };
  for (const allowed of [programs, { tgt: '['.repeat(60_000) }]) {
    t.false(targets.isStorable(allowed, new WorkBudget(minionWork)));
    t.false(targets.entitles(allowed, 'web1.example.com', budget));
    t.false(targets.matches(allowed, 'web1.example.com', budget));
  }
  const searching = { tgt: `web1* and not G@${'*:'.repeat(99)}z`, tgtType: 'compound' };
  t.true(targets.matches(searching, 'web1.example.com', budget));
  t.false(fleet(deep).matches(searching, 'web1.example.com', budget));
  t.is(budget.steps, 0);
  for (const allowed of [{ tgt: 'web1*' }, { tgt: ids.slice(0, 10_000), tgtType: 'list' }]) {
    t.true(targets.isStorable(allowed, budget));
    t.true(targets.entitles(allowed, 'web1.example.com', budget));
  }
});
