/** Limits for the work of hostile targets, in steps; see runtime/work-budget.ts. */

import test from 'ava';
import {
  compileLinearPattern,
  compilePattern,
  compileTarget,
  compileTargetInSteps,
  factsOf,
  readTargetRequest,
  type TargetExpression,
  type WireMap,
} from '#minion-protocol';
import { maxSliceSteps, minionWork, userWork, WorkBudget } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import { maxProgramSize } from '#template/python/regex-size.ts';

const limit = { code: 'ERR_WORK_LIMIT' };

/** Returns the number of steps that some work takes. */
function stepsOf(work: (budget: WorkBudget) => unknown): number {
  const budget = new WorkBudget({ steps: Number.POSITIVE_INFINITY, bytes: 2 ** 40 });
  work(budget);
  return budget.steps;
}

test('the steps of a glob are proportional to its length and to the text', (t) => {
  for (const [unit, text] of [
    ['[', '['],
    ['*a', 'a'],
    ['?', 'a'],
    ['[!]', 'a'],
  ] as const) {
    const steps = (times: number): number =>
      stepsOf((budget) => compileGlob(unit.repeat(times), budget)(text.repeat(times)));
    t.true(steps(4000) <= 4.2 * steps(1000), `${unit}: ${steps(1000)} and ${steps(4000)}`);
  }
});

test('a long glob with wildcards is refused before it is parsed', (t) => {
  const budget = new WorkBudget(minionWork);
  t.throws(() => compileGlob('['.repeat(200_000), budget), { ...limit, message: /^a glob takes/ });
  t.true(budget.steps <= 200_001);
  t.notThrows(() => compileGlob('a'.repeat(200_000), new WorkBudget(minionWork)));
  const longest = new WorkBudget(minionWork);
  t.throws(() => compileGlob('a'.repeat(12_000_000), longest), { ...limit, message: /1000000/ });
  t.is(longest.steps, 0);
});

test('a segment with wildcards counts each position where it is tried', (t) => {
  const glob = `*${'?'.repeat(200)}b*`;
  const text = 'a'.repeat(1_000_000);
  t.throws(() => compileGlob(glob, new WorkBudget(minionWork))(text), {
    ...limit,
    message: /^matching of a glob takes/,
  });
  t.true(compileGlob('*a*a*', new WorkBudget(minionWork))(text));
  t.false(compileGlob('*b*', new WorkBudget(minionWork))(text));
});

test('the size of the sets of all globs together is limited', (t) => {
  const budget = new WorkBudget(minionWork);
  const set = `[${'ab'.repeat(5000)}]`;
  const error = t.throws(() => {
    for (let count = 0; count < 100; count += 1) compileGlob(set, budget);
  }, limit);
  t.regex(error?.message ?? '', /^sets of globs takes more than \d+ bytes/);
});

test('counted repeats multiply, and a large program is refused before it is compiled', (t) => {
  for (const pattern of [
    'x{1000}x{1000}x{1000}',
    '(x{100}){100}',
    '(?:(?:x{50}){50}){50}',
    'x{1000}'.repeat(100),
    '(ab|cd){1000}',
    '\\w'.repeat(200),
    '('.repeat(5000),
  ]) {
    const budget = new WorkBudget(minionWork);
    const message = /^a regular expression takes more than 2000 instructions/;
    t.throws(
      () => compileLinearPattern(pattern, budget),
      { ...limit, message },
      pattern.slice(0, 30),
    );
    t.is(budget.bytes, 0);
  }
  t.is(maxProgramSize, 2000);
  for (const pattern of ['x{1000}', 'web[0-9]{1,3}\\.(?:a|b)\\.example\\.com', '.*'.repeat(50)]) {
    t.notThrows(() => compileLinearPattern(pattern, new WorkBudget(minionWork)));
  }
});

test('backtracking patterns have the same limits', (t) => {
  const pattern = `(?=a)${'x{1000}'.repeat(3)}`;
  t.throws(() => compilePattern(pattern, new WorkBudget(userWork)), limit);
});

test('the size of the programs of all terms together is limited', (t) => {
  const budget = new WorkBudget(minionWork);
  const tgt = Array(90).fill('E@x{1000}').join(' or ');
  const message = /^compilation of regular expressions takes more than \d+ bytes/;
  t.throws(() => compile({ tgtType: 'compound', tgt }, budget), { ...limit, message });
});

test('the branches of an expression are counted before matching begins', (t) => {
  const budget = new WorkBudget(minionWork);
  const test = compileLinearPattern(`${'x*'.repeat(100)}y`, budget);
  const before = budget.steps;
  t.throws(() => test('x'.repeat(100_000)), { ...limit, message: /steps for one text/ });
  t.is(budget.steps, before);
  test('x'.repeat(1000));
  t.true(budget.steps - before >= 200_000);
});

function compile(target: TargetExpression, meter: WorkBudget): ReturnType<typeof compileTarget> {
  return compileTarget(target, compileLinearPattern, { meter });
}

/** Returns a binary tree of maps in lists. */
function tree(depth: number): WireMap {
  if (depth === 0) return { x: 'y' };
  return { a: [tree(depth - 1), 'b', tree(depth - 1)] };
}

function evaluate(target: TargetExpression, grains: WireMap): WorkBudget {
  const budget = new WorkBudget(minionWork);
  const facts = { grains: factsOf(grains), pillar: undefined };
  compile(target, budget).test({ id: 'web1', facts });
  return budget;
}

test('the search in grains is limited for each minion', (t) => {
  const grains = { a: [tree(12), tree(12)] };
  for (const tgt of [`${'a:'.repeat(99)}z`, `a:${'*:a:'.repeat(20)}z`]) {
    t.throws(() => evaluate({ tgtType: 'grain', tgt }, grains), {
      ...limit,
      message: /^a condition on grains or pillar takes more than \d+ steps for one minion/,
    });
  }
});

test('searching a thousand grains of a minion takes a limited number of steps', (t) => {
  const own = Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`g${at}`, { b: 'c' }]));
  const tgt = `*:${'b:'.repeat(95)}z`;
  t.true(evaluate({ tgtType: 'grain', tgt }, own).steps < 3_000_000);
});

test('the limit on parts of an expression also holds inside maps', (t) => {
  const target = { tgtType: 'grain', tgt: `a|${':'.repeat(10_000)}`, delimiter: '|' } as const;
  t.throws(() => evaluate(target, { a: { b: 'c' } }), { ...limit, message: /more than 100 parts/ });
});

test('the number of words of a compound target is limited', (t) => {
  const tgt = Array(10_002).fill('a').join(' or ');
  const message = /^a compound target takes more than 20000 words/;
  t.throws(() => evaluate({ tgtType: 'compound', tgt }, {}), { ...limit, message });
});

test('ordinary targets take few steps', (t) => {
  const list = Array.from({ length: 10_000 }, (_, at) => `web${at}.example.com`);
  t.true(evaluate({ tgtType: 'list', tgt: list }, {}).steps < 250_000);
  const words = list.slice(0, 300).map((id) => `${id.slice(0, 6)}*`);
  t.true(evaluate({ tgtType: 'compound', tgt: words.join(' or ') }, {}).steps < 50_000);
  const patterns = list.slice(0, 300).map((id) => `E@${id.replaceAll('.', '\\.')}`);
  t.true(evaluate({ tgtType: 'compound', tgt: patterns.join(' or ') }, {}).steps < 10_000_000);
  t.true(evaluate({ tgtType: 'grain', tgt: 'os:Ubuntu' }, { os: 'Ubuntu' }).steps < 100);
});

test('grains of a megabyte are searched', (t) => {
  const big = { text: 'x'.repeat(1_000_000), list: Array(20_000).fill({ name: 'disk', size: 1 }) };
  for (const tgt of ['text:*y*', 'list:name:disk', 'list:*9', 'text:x*x*x']) {
    t.notThrows(() => evaluate({ tgtType: 'grain', tgt }, big), tgt);
  }
});

const tooLarge: readonly (readonly [string, TargetExpression, RegExp])[] = [
  ['ids in a text', { tgt: 'a,'.repeat(50_000), tgtType: 'list' }, /50000 ids/],
  ['ids in a list', { tgt: Array(50_001).fill('a'), tgtType: 'list' }, /50000 ids/],
  ['characters', { tgt: 'a'.repeat(4_000_001), tgtType: 'list' }, /4000000 characters/],
  ['ids after L@', { tgt: `L@${'a,'.repeat(60_000)}`, tgtType: 'compound' }, /50000 ids/],
  ['words', { tgt: 'a or '.repeat(20_000), tgtType: 'compound' }, /20000 words/],
  ['words in a list', { tgt: Array(50_001).fill('a'), tgtType: 'compound' }, /50000 words/],
  ['long words', { tgt: ['a'.repeat(300_000)], tgtType: 'compound' }, /262144 characters/],
  ...(['compound', 'glob', 'grain', 'grain_pcre', 'ipcidr', 'pcre', 'pillar'] as const).map(
    (tgtType) => [tgtType, { tgt: 'a:'.repeat(150_000), tgtType }, /262144 characters/] as const,
  ),
];

for (const [title, target, message] of tooLarge) {
  test(`a target with too many or too long parts is refused: ${title}`, (t) => {
    const meter = new WorkBudget(minionWork);
    const refused = { ...limit, message };
    t.throws(() => compileTarget(target, undefined, { meter }), refused);
    // Nothing was split into its parts.
    t.true(meter.steps <= 262_144);
  });
}

test('targets are refused by their size before they are published', (t) => {
  const read = (tgt: string | string[], tgtType: string) => readTargetRequest({ tgt, tgtType });
  t.throws(() => read('a,'.repeat(50_000), 'list'), { ...limit, message: /50000 ids/ });
  t.throws(() => read('a'.repeat(300_000), 'glob'), { ...limit, message: /262144 characters/ });
  t.is(read('a,'.repeat(49_999), 'list').tgt.length, 1);
});

test('a condition on grains with many parts is refused before it is split', (t) => {
  const target = { tgt: 'a:'.repeat(100_000), tgtType: 'grain' } as const;
  t.throws(() => compileTarget(target), { message: /more than 100 parts/ });
});

test('a long list pauses often while it is compiled', (t) => {
  const ids = Array.from({ length: 50_000 }, (_, at) => `web${at}.example.com`);
  for (const [tgt, tgtType] of [
    [ids, 'list'],
    [ids.join(','), 'list'],
    [`L@${ids.slice(0, 10_000).join(',')} and web*`, 'compound'],
  ] as const) {
    const meter = new WorkBudget(userWork);
    const steps = compileTargetInSteps({ tgt, tgtType }, compileLinearPattern, { meter });
    let before = 0;
    for (let step = steps.next(); step.done !== true; step = steps.next()) {
      t.true(meter.steps - before <= maxSliceSteps || before === 0);
      before = meter.steps;
    }
    t.true(before > maxSliceSteps);
  }
});
